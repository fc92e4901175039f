package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// recorded is a journal file that systemd 252 wrote from testdata/night.export:
//
//	SYSTEMD_JOURNAL_COMPACT=1 systemd-journal-remote -o compact.journal - < night.export
//	SYSTEMD_JOURNAL_COMPACT=0 SYSTEMD_JOURNAL_KEYED_HASH=0 systemd-journal-remote -o regular.journal - < night.export
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	f := must.Get(os.Open("testdata/" + name + ".journal.gz"))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	b := must.Get(io.ReadAll(z))(t)
	return b
}

var (
	began = time.Unix(1795348800, 0) // of night.export
	both  = Want{Units: []string{"kubelet.service", "docker.service"}, Since: began, Most: 100}
)

// TestTail checks for the lines of the wanted services, in order, and systemd's lines about them. Lines that another
// program claims to be about them, or that a container logged, are missing.
func TestTail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"compact", "regular"} {
		b := recorded(t, name)
		from, to, err := Span(bytes.NewReader(b))
		if err != nil || !from.Equal(began) || to.Sub(from) != 8300*time.Millisecond {
			t.Errorf("%s: from %v to %v, %v", name, from, to, err)
		}
		got, err := Tail(t.Context(), bytes.NewReader(b), int64(len(b)), both)
		if err != nil || len(got) != 4 {
			t.Fatalf("%s: %d entries, %v: %+v", name, len(got), err, got)
		}
		for i, want := range []Entry{
			{began, "kubelet.service", "811", false, `I1122 12:00:00.000000     811 server.go:532] "Kubelet version"`},
			{began.Add(8 * time.Second), "kubelet.service", "811", false, `E1122 12:00:08.000000     811 run.go:72] "command failed"`},
			{began.Add(8100 * time.Millisecond), "kubelet.service", "1", true, "kubelet.service: Main process exited, code=exited, status=1/FAILURE"},
			{began.Add(8300 * time.Millisecond), "docker.service", "701", false, "failed to start daemon: "},
		} {
			g := got[i]
			text := strings.HasPrefix(g.Text, want.Text)
			g.Text, want.Text = "", ""
			if !g.Time.Equal(want.Time) || !text {
				t.Errorf("%s: entry %d: %+v", name, i, got[i])
			}
			g.Time, want.Time = time.Time{}, time.Time{}
			if g != want {
				t.Errorf("%s: entry %d is %+v, want %+v", name, i, g, want)
			}
		}
		if long := got[1].Text; !strings.Contains(long, "setting11 (--setting-11)") || !strings.HasSuffix(long, "}\"") {
			t.Errorf("%s: the compressed line: %q", name, long)
		}
		few, err := Tail(t.Context(), bytes.NewReader(b), int64(len(b)), Want{Units: both.Units[:1], Since: began, Most: 1})
		if err != nil || len(few) != 1 || !few[0].About {
			t.Errorf("%s: the last one: %+v, %v", name, few, err)
		}
		after := Want{Units: both.Units, Since: began.Add(8050 * time.Millisecond), Most: 9}
		late, err := Tail(t.Context(), bytes.NewReader(b), int64(len(b)), after)
		if err != nil || len(late) != 2 {
			t.Errorf("%s: since then: %+v, %v", name, late, err)
		}
	}
}

// TestEnded checks that reading stops with its context.
func TestEnded(t *testing.T) {
	t.Parallel()
	b := recorded(t, "compact")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Tail(ctx, bytes.NewReader(b), int64(len(b)), both); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestUnpackLZ4 reads a block that lz4 created, whole and truncated.
func TestUnpackLZ4(t *testing.T) {
	t.Parallel()
	const block = "kgcAAAAAAADzIU1FU1NBR0U9c2V0dGluZzAgbXVzdCBub3QgYmUgYSBuZWdhdGl2ZSBudW1iZXI7ICgAHzEoABQfMigAFB8zKAAUHzQoABQfNSgAFB82KAAUHzcoABQfOCgAFB85KAAULzEwKQAVD5IBFR8xkwEVHzGUARUfMZUBFR8xlgEVHzGXARUfMZgBFR8xmQEVHzGaARUfMpoBFR8ymgEVHzKaARUfMpoBFR8ymgEVHzKaARUfMpoBFR8ymgEVHzKaARUfMpoBFR8zmgEVHzOaARUfM5oBFR8zmgEVHzOaARUfM5oBFR8zmgEVHzOaARUfM5oBFR8zmgEOH3gBAP8L4Hh4eHh4eHh4eHh4eHh4"
	b := must.Get(base64.StdEncoding.DecodeString(block))(t)
	got := string(unpack(packedLZ4, b))
	if len(got) != 1938 || !strings.HasPrefix(got, "MESSAGE=setting0 must not be a negative number; setting1 must") ||
		!strings.HasSuffix(got, "setting39 must not be a negative number; "+strings.Repeat("x", 300)) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for i := range b {
		if cut := unpack(packedLZ4, b[:i]); len(cut) > len(got) {
			t.Errorf("cut to %d bytes: %d", i, len(cut))
		}
	}
	bomb := append(binary.LittleEndian.AppendUint64(nil, 1<<60), 0x1f, 'a', 1, 0)
	bomb = append(bomb, bytes.Repeat([]byte{255}, 60_000)...)
	if got := unpack(packedLZ4, bomb); len(got) > maxText {
		t.Errorf("%d bytes of a block that never ends", len(got))
	}
}

// TestHostile checks that a file that is truncated or changed anywhere returns, within the limits. The changes are the
// same each time.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"compact", "regular"} {
		whole := recorded(t, name)
		random := rand.New(rand.NewPCG(1, 2))
		last := len(bytes.TrimRight(whole, "\x00"))
		for range 500 {
			b := bytes.Clone(whole[:last+64])
			for range 1 + random.IntN(4) {
				at := random.IntN(last)
				if random.IntN(2) == 0 { // in the important places: the header, and the objects at the end
					at = []int{88 + random.IntN(120), last - 1 - random.IntN(12_000)}[random.IntN(2)]
				}
				b[at] = byte(random.Uint32())
			}
			b = b[:len(b)-random.IntN(2)*random.IntN(len(b))]
			got, _ := Tail(t.Context(), bytes.NewReader(b), int64(len(whole)), both)
			for _, e := range got {
				if len(e.Text) > 3*maxText {
					t.Fatalf("a line of %d bytes", len(e.Text))
				}
			}
			if len(got) > 2*both.Most {
				t.Fatalf("%d entries", len(got))
			}
		}
	}
	for _, b := range []string{"", "LPKSHHRH", strings.Repeat("x", 4096)} {
		if _, err := Tail(t.Context(), strings.NewReader(b), int64(len(b)), both); err == nil {
			t.Errorf("%.10q is read", b)
		}
	}
}

// TestCircle checks that a list that leads back to itself ends.
func TestCircle(t *testing.T) {
	t.Parallel()
	b := recorded(t, "regular")
	first := binary.LittleEndian.Uint64(b[176:])
	binary.LittleEndian.PutUint64(b[152:], 1<<40)
	binary.LittleEndian.PutUint64(b[first+objectSize:], first)
	if _, err := Tail(t.Context(), bytes.NewReader(b), int64(len(b)), both); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

// TestKernel checks for the kernel's own lines, without those that a program wrote to /dev/kmsg.
func TestKernel(t *testing.T) {
	t.Parallel()
	want := Want{Units: []string{Kernel}, Since: began, Most: 9}
	b := bytes.ReplaceAll(recorded(t, "regular"), []byte("_TRANSPORT=stdout"), []byte("_TRANSPORT=kernel"))
	if got, err := Tail(t.Context(), bytes.NewReader(b), int64(len(b)), want); err != nil || len(got) != 0 {
		t.Errorf("without a facility: %+v, %v", got, err)
	}
	for facility, wanted := range map[string]int{"SYSLOG_FACILITY=0": 1, "SYSLOG_FACILITY=1": 0} {
		of := bytes.Clone(b)
		at := bytes.Index(of, []byte("SYSLOG_IDENTIFIER=kubelet"))
		copy(of[at:], facility)
		binary.LittleEndian.PutUint64(of[at-64+8:], uint64(64+len(facility))) // of the object before it
		got, err := Tail(t.Context(), bytes.NewReader(of), int64(len(of)), want)
		if err != nil || (len(got) > 0) != (wanted > 0) {
			t.Errorf("%s: %+v, %v", facility, got, err)
		}
	}
}
