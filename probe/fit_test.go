package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// filled visits every field of an event except the client's conclusions, and returns those that want fills with the
// worst value of their type. It also visits fields that are added later.
func filled(v reflect.Value, path, text string, want func(path string) bool) {
	switch at := v.Interface().(type) {
	case *Cause, *Verdict, *Group:
		return
	case time.Time:
		if want(path) {
			v.Set(reflect.ValueOf(time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600))))
		}
		return
	case []byte:
		if want(path) {
			v.SetBytes([]byte(strings.Repeat(text, 3)))
		}
		return
	case Facts:
		if want(path) {
			v.Set(reflect.ValueOf(Facts{Fact(text): text, "list": []any{text, map[string]any{text: text}},
				"not a number": math.NaN()}))
		}
		return
	case Counts:
		if want(path) {
			c := Counts{OK: math.MaxInt}
			for i := range 1000 {
				c[Status(text+strings.Repeat("x", i))] = i
			}
			v.Set(reflect.ValueOf(c))
		}
		return
	case EventType:
		return
	case []string:
		if want(path) {
			v.Set(reflect.ValueOf(slices.Repeat([]string{text[:min(len(text), 600)]}, 400)))
		}
		return
	case time.Duration:
		if want(path) {
			v.SetInt(math.MinInt64)
		}
		return
	default:
		_ = at
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), path, text, want)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), path+"."+v.Type().Field(i).Name, text, want)
		}
	case reflect.String:
		if want(path) {
			v.SetString(text)
		}
	case reflect.Bool, reflect.Int, reflect.Int64:
	default:
		panic(path + ": a type this test does not know: " + v.Type().String())
	}
}

// eventOf returns an event whose fields are filled by want.
func eventOf(text string, want func(path string) bool) Event {
	var ev Event
	filled(reflect.ValueOf(&ev).Elem(), "Event", text, want)
	return ev
}

// paths are all the fields of an event.
func paths() []string {
	var all []string
	eventOf("", func(path string) bool { all = append(all, path); return false })
	return all
}

// TestHostileEventsFitALine fills every field alone, and all together, with text that JSON makes six times longer, with
// values that JSON cannot represent, and with multi-byte letters.
func TestHostileEventsFitALine(t *testing.T) {
	t.Parallel()
	wants := map[string]func(string) bool{"all": func(string) bool { return true }}
	for _, path := range paths() {
		wants[path] = func(p string) bool { return p == path }
	}
	if len(wants) < 25 {
		t.Fatalf("only %d fields are found", len(wants))
	}
	for _, text := range []string{strings.Repeat("\x01", 6000), strings.Repeat("é<", 3000),
		strings.Repeat("\xff", 6000)} {
		for name, want := range wants {
			for _, kind := range EventTypes() {
				ev := eventOf(text, want)
				ev.Type = kind
				var out bytes.Buffer
				enc := NewEncoder(&out)
				enc.Encode(ev)
				enc.Encode(Event{Type: EventBeat})
				if err := enc.Err(); err != nil {
					t.Fatalf("%s %s: %v", name, kind, err)
				}
				lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
				for i, line := range lines {
					var got Event
					if err := json.Unmarshal([]byte(line), &got); err != nil || len(line) > MaxLine ||
						got.Seq != int64(i) {
						t.Fatalf("%s %s: line %d of %d has %d bytes and number %d: %v", name, kind, i, len(lines),
							len(line), got.Seq, err)
					}
				}
				if len(lines) < 2 || !strings.Contains(lines[len(lines)-1], `"beat"`) {
					t.Fatalf("%s %s: %d lines", name, kind, len(lines))
				}
			}
		}
	}
}

// TestEncodingChangesNothing checks that shortening an event for the wire leaves it whole for its other users.
func TestEncodingChangesNothing(t *testing.T) {
	t.Parallel()
	made := func() Event {
		return eventOf(strings.Repeat("<", 6000), func(path string) bool { return !strings.HasSuffix(path, "Facts") })
	}
	ev := made()
	NewEncoder(io.Discard).Encode(ev)
	if !reflect.DeepEqual(ev, made()) {
		t.Error("it was changed")
	}
}

// TestOutputIsSplit checks that every byte of a tool's output arrives, however it is encoded.
func TestOutputIsSplit(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x1b[1mé\n", 1500)
	for _, ev := range []Event{{Type: EventOut, Text: text}, {Type: EventOut, Data: []byte(text + "\xff")}} {
		ev.Node, ev.For = strings.Repeat("n", 253), "node-b"
		var out bytes.Buffer
		NewEncoder(&out).Encode(ev)
		got, d := "", NewDecoder(&out)
		for {
			ev, err := d.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || ev.Type != EventOut || ev.For != "node-b" {
				t.Fatalf("%+v, %v", ev, err)
			}
			got += ev.Text + string(ev.Data)
		}
		if got != ev.Text+string(ev.Data) {
			t.Errorf("%d bytes became %d", len(ev.Text)+len(ev.Data), len(got))
		}
	}
}

// TestWhatCannotBeWritten checks that an unwritable event costs only itself, and that a log event replaces it.
func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := NewEncoder(&out)
	enc.Encode(Event{Type: EventOut, Data: make([]byte, 5000), Sealed: true})
	enc.Encode(Event{Type: EventBeat})
	d := NewDecoder(&out)
	first, err := d.Next()
	if err != nil || first.Type != EventLog || !strings.Contains(first.Text, "left out: an event (out) of ") {
		t.Errorf("%+v, %v", first, err)
	}
	if second, err := d.Next(); err != nil || second.Type != EventBeat || second.Seq != 1 || enc.Err() != nil {
		t.Errorf("%+v, %v, %v", second, err, enc.Err())
	}
}

// TestLiveLinesAreShort checks that a line longer than any probe writes is dropped, and the lines after it are read. A
// saved file may have longer ones.
func TestLiveLinesAreShort(t *testing.T) {
	t.Parallel()
	long := `{"type":"log","text":"` + strings.Repeat("x", MaxLine) + "\"}\n"
	whole := `{"type":"log","text":"` + strings.Repeat("x", MaxLine-len(`{"type":"log","text":""}`)-1) + "\"}\n"
	for _, c := range []struct {
		d    *Decoder
		want int
	}{{NewLiveDecoder(strings.NewReader(long + whole)), 1}, {NewDecoder(strings.NewReader(long + whole)), 2}} {
		var noise []string
		c.d.Noise = func(line string) { noise = append(noise, line) }
		n := 0
		for {
			if _, err := c.d.Next(); err != nil {
				break
			}
			if n++; c.d.Size < MaxLine {
				t.Errorf("a size of %d", c.d.Size)
			}
		}
		if n != c.want || len(noise) != 2-c.want {
			t.Errorf("%d events, %q", n, noise)
		}
	}
}
