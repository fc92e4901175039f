package podlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 33, 21, 421000000, time.UTC)
	for name, c := range map[string]struct {
		log  string
		want []Line
	}{
		"runtime interface": {"2026-11-22T12:33:21.421Z stderr F [FATAL][1] no\n", []Line{{at, "[FATAL][1] no"}}},
		"in two parts": {"2026-11-22T12:33:21.421Z stdout P one \n2026-11-22T12:33:22Z stdout F two\n",
			[]Line{{at, "one two"}}},
		"empty line":  {"2026-11-22T12:33:21.421Z stdout F \n2026-11-22T12:33:21.421Z stdout F\n", []Line{{at, ""}, {at, ""}}},
		"docker":      {`{"log":"bird: Started\n","stream":"stdout","time":"2026-11-22T12:33:21.421Z"}` + "\n", []Line{{at, "bird: Started"}}},
		"neither":     {"{not json\nplain\n", []Line{{Text: "{not json"}, {Text: "plain"}}},
		"not its end": {"2026-11-22T12:33:21.421Z stdout F cut", []Line{{at, "cut"}}},
		"nothing":     {"", nil},
	} {
		got := Parse([]byte(c.log))
		if len(got) != len(c.want) {
			t.Errorf("%s: %d lines, want %d", name, len(got), len(c.want))
			continue
		}
		for i := range got {
			if got[i].Text != c.want[i].Text || !got[i].Time.Equal(c.want[i].Time) {
				t.Errorf("%s: %+v, want %+v", name, got[i], c.want[i])
			}
		}
	}
}

// TestTail wants whole lines of the end and no more bytes of the file than allowed.
func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 100)+"\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for most, want := range map[int64]int{16: 2, 10: 1, 1000: 3} {
		lines, err := Tail(f, most)
		if err != nil || len(lines) != want {
			t.Errorf("%d bytes: %+v %v, want %d lines", most, lines, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2026-11-22T12:33:21.421Z stdout P a\n{\"log\":\"b\",\"time\":\"2026-11-22T12:33:21Z\"}\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		total := 0
		for _, l := range Parse(log) {
			total += len(l.Text)
		}
		if total > 3*len(log) { // what JSON cannot hold becomes a character of three bytes
			t.Errorf("%d bytes of text from %d", total, len(log))
		}
	})
}
