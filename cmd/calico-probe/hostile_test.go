package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestNothingForeignIsDecoded reads a run whose every text contains control characters and newlines. They must not
// reach a reader that decodes our output, such as 'jq -r'.
func TestNothingForeignIsDecoded(t *testing.T) {
	t.Parallel()
	const said = "x\x1b[2J\u202e\nfail forged: all burns"
	bad := probe.Found(probe.Fail, said).On(said).Because(said).With(said, said).With("list",
		[]any{said, map[string]any{said: said}}).With("texts", []string{said})
	bad.Check, bad.From = "bgp-session", said
	saved := saveRun(t, said[:1]+"\u009b", true, bad)
	steers := func(r rune) bool { return !unicode.IsGraphic(r) }
	var look func(format string, v any)
	look = func(format string, v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsFunc(v, steers) {
				t.Errorf("%s has %q", format, v)
			}
		case []any:
			for _, e := range v {
				look(format, e)
			}
		case map[string]any:
			for key, e := range v {
				look(format, key)
				look(format, e)
			}
		}
	}
	for _, format := range []string{"json", "ndjson", "yaml"} {
		exit, out, errs := call(t, "analyze", saved, "-o", format)
		if exit != 3 || !strings.Contains(out, "forged") {
			t.Fatalf("%s: exit %d %s%s", format, exit, out, errs)
		}
		texts := []string{out}
		if format == "ndjson" {
			texts = slices.Collect(strings.Lines(out))
		}
		for _, text := range texts {
			var tree any
			must.Do(t, yaml.Unmarshal([]byte(text), &tree))
			look(format, tree)
		}
	}
	for _, output := range []string{
		`go-template={{range .results}}{{.status}} {{.check}}: {{.saw}} {{.target}} {{.from}} {{.facts}} {{range .lines}}{{.}}{{end}}{{"\n"}}{{end}}`, `jsonpath={range .results[*]}{.saw} {.target} {.lines[*]}{"\n"}{end}`,
	} {
		if _, out, _ := call(t, "analyze", saved, "-o", output); strings.Count(out, "\n") != 1 ||
			strings.Contains(out, "\nfail") || !strings.Contains(out, "forged") {
			t.Errorf("%s: %q", output, out)
		}
	}
	// A live run is cleaned before conclusions are drawn.
	c := examine.NewCollector("node-a", report.SinkFunc(func(ev probe.Event) error {
		look("live", ev.Result.Saw)
		look("live", ev.Result.Facts[probe.Fact("list")])
		return nil
	}))
	if err := errors.Join(c.Add("pod", probe.Event{Type: probe.EventResult, Result: &bad}),
		c.AddOf("node-b", "pod", probe.Event{Type: probe.EventResult, Result: &bad})); err != nil {
		t.Error(err)
	}
	look("live", c.Seen.All[0].Saw)
	look("live", c.Seen.All[1].Target)
}
