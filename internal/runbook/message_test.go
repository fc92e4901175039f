package runbook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMessages builds chat messages with hostile text in every field. Each text must be in an element without markup,
// short, and on one line.
func TestMessages(t *testing.T) {
	t.Parallel()
	const hostile = "<!channel> <https://evil.example|here> [x](https://evil.example) @all\n\x1b[31m" + "&"
	r := &Record{Runbook: hostile, Node: hostile, By: hostile, Cluster: &probe.Cluster{Context: hostile, Server: hostile},
		Outcome: &Outcome{Verdict: "fault", Says: hostile + strings.Repeat("y", 5000), Next: hostile},
		Steps: []Entry{{Step: "1", Kind: "run", Asked: []Asked{{Node: hostile, Verdict: "fault", Causes: []Cause{{
			Cause: probe.Cause{ID: "swap-on", About: hostile, Says: hostile, Confidence: "high",
				Fix: probe.Fix{Says: hostile, Radius: hostile}}}}}}}}}
	for _, chat := range chats {
		b := must.Get(r.message(chat))(t)
		var tree map[string]any
		must.Do(t, json.Unmarshal(b, &tree))
		found := 0
		var look func(any)
		look = func(v any) {
			switch v := v.(type) {
			case []any:
				for _, of := range v {
					look(of)
				}
			case map[string]any:
				text, is := v["text"].(string)
				plain := v["type"] == "plain_text" || v["type"] == "TextRun"
				switch {
				case is && !plain && strings.ContainsAny(text, "<>"):
					t.Errorf("%s: markup in %q", chat, text)
				case is && plain:
					found++
					if len(text) == 0 || len(text) > maxLine || strings.ContainsAny(text, "\n\x1b") {
						t.Errorf("%s: %q", chat, text)
					}
				}
				for _, of := range v {
					look(of)
				}
			}
		}
		look(tree)
		if found != 7 {
			t.Errorf("%s: %d texts in %s", chat, found, b)
		}
	}
}

// TestMessageInTime requires the results of a run before the conclusion, and nothing about another node.
func TestMessageInTime(t *testing.T) {
	t.Parallel()
	of := func(node, cause string) Asked {
		c := probe.Cause{ID: cause, Says: "it is", Confidence: "high"}
		return Asked{Node: node, Verdict: "fault", Causes: []Cause{{Cause: c}}}
	}
	r := &Record{Runbook: "node-not-ready", Node: "a", Steps: []Entry{
		{Asked: []Asked{of("a", "first")}}, {Asked: []Asked{of("b", "other"), of("a", "second")}}, {Text: "a note"},
	}}
	head, lines := r.inShort()
	if head != "fault: node a" || !strings.HasPrefix(lines[0], "second (high): it is") || len(lines) != 2 {
		t.Errorf("%q %q", head, lines)
	}
}
