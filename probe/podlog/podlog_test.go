package podlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
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
		"two streams at once": {"2026-11-22T12:33:21.421Z stdout P one \n2026-11-22T12:33:21.421Z stderr F error\n" +
			"2026-11-22T12:33:22Z stdout F two\n", []Line{{at, "one two"}, {at, "error"}}},
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

// TestTail checks for whole lines that begin within the last bytes, and no remainder of one.
func TestTail(t *testing.T) {
	t.Parallel()
	const part, rest = "2026-11-22T12:33:21Z stdout P one \n", "2026-11-22T12:33:21Z stdout F two\n"
	const other, last = "2026-11-22T12:33:21Z stderr F error\n", "2026-11-22T12:33:22Z stdout F three\n"
	long := strings.Repeat("x", 100) + "\n"
	for name, c := range map[string]struct {
		log  string
		most int
		want string
	}{
		"a line begins at the cut":      {long + "second\nthird\n", len("second\nthird\n"), "second|third"},
		"a line begins before it":       {long + "second\nthird\n", len("second\nthird\n") - 1, "third"},
		"the whole file":                {long + "second\n", 1000, strings.TrimSpace(long) + "|second"},
		"between the parts of a line":   {part + rest + last, len(rest + last), "three"},
		"before both parts":             {part + rest + last, len(part + rest + last), "one two|three"},
		"within the first":              {part + rest + last, len(rest+last) + 3, "three"},
		"another stream in between":     {part + other + rest + last, len(other + rest + last), "error|three"},
		"a line far longer than it all": {strings.Repeat("x", 3*behind) + "\nlast\n", 10, "last"},
		"a part that never ends":        {part, 10, ""},
		"behind what is looked at":      {strings.Repeat(last, 2000), len(last), "three"},
	} {
		file := filepath.Join(t.TempDir(), "0.log")
		must.Do(t, os.WriteFile(file, []byte(c.log), 0o600))
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := Tail(f, int64(c.most))
		var texts []string
		for _, l := range lines {
			texts = append(texts, l.Text)
		}
		if got := strings.Join(texts, "|"); err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
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
		if total > 3*len(log) { // invalid UTF-8 becomes a character of three bytes
			t.Errorf("%d bytes of text from %d", total, len(log))
		}
	})
}
