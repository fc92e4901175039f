package probe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDeepFacts answers with nested lists. In an indented report each level costs two columns of every line inside it.
// Lists of our depth stay, deeper ones become a mark, and the result is marked as cut.
func TestDeepFacts(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat(`[`, levels) + `{"a":["x"]}` + strings.Repeat(`]`, levels)
	}
	for levels, want := range map[int]string{
		1: nested(1), 4: nested(4), 5: `[[[[[{"a":"…"}]]]]]`, 1900: `[[[[[["…"]]]]]]`,
	} {
		i := NewIntake(planRequest)
		var got string
		line := `{"type":"result","result":{"check":"felix-live","target":"","status":"ok","facts":{"a":%s}}}` + "\n"
		d := NewDecoder(strings.NewReader(`{"type":"start","start":{"v":1}}` + "\n" + fmt.Sprintf(line, nested(levels))))
		for {
			ev, err := d.Next()
			if err != nil {
				break
			}
			let, err := i.Take(ev, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range let {
				if own.Result == nil {
					continue
				}
				b, err := json.Marshal(own.Result.Facts["a"])
				if got = string(b); err != nil || own.Result.Cut != (levels > 4) {
					t.Errorf("%d levels: cut %v, %v", levels, own.Result.Cut, err)
				}
			}
		}
		if got != want {
			t.Errorf("%d levels: %.100s, want %s", levels, got, want)
		}
	}
}
