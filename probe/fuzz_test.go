package probe

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe/must"
)

// FuzzIntake answers a plan with any bytes. Only requested results pass, cleaned and within the limits.
func FuzzIntake(f *testing.F) {
	f.Add([]byte(`{"type":"start","start":{"v":1}}` + "\n" +
		`{"type":"result","result":{"check":"felix-live","target":"","status":"fail","facts":{"owned_by":"eth0"}}}` + "\n" +
		`{"type":"end","end":{"results":1}}` + "\n"))
	f.Add([]byte(`{"type":"start","start":{"v":9}}` + "\n" + `{"type":"log","text":"a\u001b[0m"}` + "\n"))
	f.Add([]byte(`{"type":"start"}` + "\n" + `{"type":"result","result":{"check":"pod-ping","from":"default/web",` +
		`"status":"?","facts":{"node_state":"gone","list":[[[1]]]},"lines":["` + strings.Repeat("x", 600) + `"]}}` + "\n"))
	f.Add([]byte(`{"type":"start","start":{"v":1}}` + "\n" + `{"type":"result","result":{"check":"felix-live","status":"ok",` +
		`"facts":{"a":` + strings.Repeat("[", 1950) + strings.Repeat("]", 1950) + `}}}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		i, d := NewIntake(planRequest), NewDecoder(bytes.NewReader(in))
		for {
			ev, err := d.Next()
			if err != nil {
				return
			}
			let, err := i.Take(ev, false)
			if err != nil {
				return
			}
			for _, own := range let {
				wantFit(t, own)
			}
		}
	})
}

// wantFit checks that an event that passed may be kept and shown.
func wantFit(t *testing.T, ev Event) {
	t.Helper()
	was := must.Get(json.Marshal(ev))(t)
	if is, err := json.Marshal(ev.Cleaned().Bounded()); err != nil || !bytes.Equal(was, is) {
		t.Errorf("not clean or not bounded (%v):\n%s\n%s", err, was, is)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, was, "", "  "); err != nil || indented.Len() > 20*ev.Held() {
		t.Errorf("%d bytes are %d with its indents (%v)", ev.Held(), indented.Len(), err)
	}
	r := ev.Result
	if r == nil {
		return
	}
	requested := slices.Contains(planRequest.Plan.Checks, r.Check) || r.Check == CheckAnswered
	if !requested || !slices.Contains(Statuses(), r.Status) {
		t.Errorf("%s was not requested", was)
	}
}

// FuzzMasked puts foreign text before a token. The token is removed, and the text is one line without control
// characters.
func FuzzMasked(f *testing.F) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.c2lnbmF0dXJl"
	f.Add("password=hunter2 token: x")
	f.Add(`Authorization: Bearer abc {"client_key":"x","secrets":[1]}`)
	f.Add("https://a:b@c/d?token=e \x1b[31m secret \"x\" not found")
	f.Fuzz(func(t *testing.T, text string) {
		got := Masked(text + " " + token)
		if strings.Contains(got, "eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ") || strings.Contains(got, "c2lnbmF0dXJl") {
			t.Errorf("%q", got)
		}
		odd := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsGraphic(r) }
		if strings.ContainsFunc(got, odd) || !utf8.ValidString(got) {
			t.Errorf("not one line: %q", got)
		}
		if most := (len(text) + len(token) + 1) * len(leftOut); len(got) > most {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
		if n := utf8.RuneCountInString(Quoted(text)); n > 2*maxQuote {
			t.Errorf("%d letters quoted", n)
		}
	})
}
