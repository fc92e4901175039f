package probe

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

func TestALineNeverExceedsMaxLine(t *testing.T) {
	long := strings.Repeat("é", 5000)
	var lines []string
	for range 100 {
		lines = append(lines, long)
	}
	for name, ev := range map[string]Event{
		"everything long": {Type: EventResult,
			Result: &Result{Check: "a-b", Status: OK, Target: long, Saw: long, Lines: lines, Facts: Facts{"k": long}}},
		"log":         {Type: EventLog, Text: long},
		"many checks": {Type: EventStart, Start: &Start{Checks: lines}},
	} {
		var out bytes.Buffer
		enc := NewEncoder(&out)
		enc.Encode(ev)
		if enc.Err() != nil || out.Len() == 0 || out.Len() > MaxLine {
			t.Errorf("%s: %d bytes, %v", name, out.Len(), enc.Err())
		}
		got, err := NewDecoder(&out).Next()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Result != nil && !got.Result.Cut {
			t.Errorf("%s: shortened without saying so", name)
		}
	}
}

func TestEveryEventIsOneWrite(t *testing.T) {
	var writes [][]byte
	enc := NewEncoder(writerFunc(func(p []byte) (int, error) {
		writes = append(writes, bytes.Clone(p))
		return len(p), nil
	}))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { enc.Encode(Event{Type: EventBeat}) })
	}
	all.Wait()
	for i, w := range writes {
		ev, err := NewDecoder(bytes.NewReader(w)).Next()
		if err != nil || ev.Seq != int64(i) || w[len(w)-1] != '\n' {
			t.Fatalf("write %d: %q, %v", i, w, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestEncoderStopsAtTheFirstError(t *testing.T) {
	want := errors.New("gone")
	n := 0
	enc := NewEncoder(writerFunc(func([]byte) (int, error) { n++; return 0, want }))
	enc.Encode(Event{Type: EventBeat})
	enc.Encode(Event{Type: EventBeat})
	if !errors.Is(enc.Err(), want) || n != 1 {
		t.Errorf("%v after %d writes", enc.Err(), n)
	}
}

func TestDecoderKeepsNoiseApart(t *testing.T) {
	in := "runtime: a warning\n" +
		`{"seq":0,"type":"start","start":{"v":1,"run":"r"}}` + "\n" +
		`{"a":1}` + "\n" +
		strings.Repeat("x", 200<<10) + "\n" +
		`{"seq":1,"type":"from-the-future","future":true}` + "\n" +
		`{"seq":2,"type":"result"}` + "\n" +
		`{"seq":3,"type":"end","end":{"results":0}}`
	var noise []string
	d := NewDecoder(strings.NewReader(in))
	d.Noise = func(l string) { noise = append(noise, l) }
	var seqs []int64
	for {
		ev, err := d.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, ev.Seq)
	}
	if want := []int64{0, 1, 3}; !reflect.DeepEqual(seqs, want) {
		t.Errorf("events %v, want %v", seqs, want)
	}
	if len(noise) != 4 {
		t.Errorf("noise: %d lines, want 4", len(noise))
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte(`{"seq":0,"type":"result","result":{"check":"a-b","status":"ok","saw":"x"}}` + "\n"))
	f.Add([]byte(`{"type":"result","result":{"check":"a-b","status":"ok","from":"` + strings.Repeat("x", 6000) + `"}}`))
	f.Add([]byte(`{"type":"start","start":{"time":"9999-12-31T23:59:59-23:59","access":["` + strings.Repeat("<",
		6000) + `"]}}`))
	f.Add([]byte(`{"type":"out","data":"` + strings.Repeat("/w==", 1) + strings.Repeat("AAAA", 2000) + `"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := NewDecoder(bytes.NewReader(in))
		var out bytes.Buffer
		enc := NewEncoder(&out)
		for {
			ev, err := d.Next()
			if err != nil {
				break
			}
			if ev.Type == EventResult && ev.Result == nil {
				t.Fatal("a result event without a result")
			}
			ev.Cause, ev.Verdict = nil, nil // which may be longer than a line
			enc.Encode(ev)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if len(line) > MaxLine {
				t.Fatalf("a line of %d bytes", len(line))
			}
		}
		must.Do(t, enc.Err())
	})
}

// TestResultsThatCannotBeShown checks that a line is not an event if its name would control a terminal, or its status
// is unknown.
func TestResultsThatCannotBeShown(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]bool{
		`{"check":"felix-live","status":"ok"}`:          true,
		`{"check":"felix\u001b]52;c;x","status":"ok"}`:  false,
		`{"check":"felix\n","status":"ok"}`:             false,
		`{"check":"felix\u202elive","status":"ok"}`:     false,
		`{"check":"felix-live","status":"ok\u001b[2J"}`: false,
		`{"check":"felix-live"}`:                        false,
		`{"status":"ok"}`:                               false,
	} {
		_, err := NewDecoder(strings.NewReader(`{"type":"result","result":` + result + `}`)).Next()
		if (err == nil) != want {
			t.Errorf("%s: %v", result, err)
		}
	}
}
