package journal

import (
	"bytes"
	"testing"
	"time"
)

// FuzzTail overwrites recorded files, which have many zeros, in several places, with as many bytes as the input has.
func FuzzTail(f *testing.F) {
	files := [][]byte{recorded(f, "compact"), recorded(f, "regular")}
	f.Add(false, uint32(152), uint32(176), uint32(1<<20), []byte{0xff, 0xff})
	f.Add(true, uint32(8), uint32(300), uint32(4000), []byte{4})
	f.Fuzz(func(t *testing.T, regular bool, at, other, cut uint32, change []byte) {
		whole := files[0]
		if regular {
			whole = files[1]
		}
		used := len(bytes.TrimRight(whole, "\x00"))
		b := bytes.Clone(whole[:min(len(whole), used+64)])
		copy(b[int(at)%len(b):], change)
		copy(b[int(other)%len(b):], change)
		b = b[:len(b)-int(cut)%len(b)*int(cut&1)]
		began := time.Now()
		got, _ := Tail(t.Context(), bytes.NewReader(b), int64(len(whole)), both)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		if len(got) > len(both.Units)*both.Most {
			t.Errorf("%d entries", len(got))
		}
		for _, e := range got {
			if len(e.Text) > 3*maxText || len(e.Unit) > maxField || len(e.PID) > maxField {
				t.Errorf("a line of %d bytes of %d and %d", len(e.Text), len(e.Unit), len(e.PID))
			}
		}
	})
}

// FuzzUnpack unpacks any bytes, and checks the limit of a line.
func FuzzUnpack(f *testing.F) {
	f.Add(byte(packedLZ4), []byte("\x10\x00\x00\x00\x00\x00\x00\x00\x1fa\x01\x00\xff\xff"))
	f.Add(byte(packedZSTD), []byte("\x28\xb5\x2f\xfd\x00\x58\x29\x00\x00MESSA"))
	f.Fuzz(func(t *testing.T, form byte, b []byte) {
		if got := unpack(form, b); len(got) > maxText {
			t.Errorf("%d bytes", len(got))
		}
	})
}
