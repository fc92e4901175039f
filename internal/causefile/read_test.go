package causefile

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// whole is a valid file.
const whole = `---
layer: init
find:
  held: ipam-files fail reason=locked
  pods: pods-start bad starts={held.starts}
  calm: others:node-load ok load<5
words:
  kind: {address: an address, other: something}
cases:
- each: held
  if: held, not calm
  about: "{held.target}"
  says: "{node} waits for {held.starts:word kind}: {held.saw} ({held.left:seconds})"
  for: [proof held, shows pods]
  covers: [pods-start/x, "@down one"]
  args: {holder: "process {held.holder}", path: "file {held.file}"}
  also:
  - {if: pods, says: "; {pods.count:plural pod} of {pods.*target}", fix: other-fix}
---
# an upgrade waits

First paragraph that
is wrapped.

Second.

## Fix

End process {holder} of {path}.

` + "```sh\nssh {node} ps {holder} {path}\n```" + `

### If it is ours

` + "```sh\nkubectl get pods\n```" + `

Touches: this node

## Fix: other-fix

Wait for {holder}.

Touches: nothing
`

var shared = Shared{Covers: map[string]CoverFunc{
	"down": func(_ diagnose.Findings, args ...string) []diagnose.Cover { return diagnose.Covers(args...) },
}}

func found(check, target string, status probe.Status, facts probe.Facts) diagnose.Finding {
	return diagnose.Finding{Node: "node-a", Result: probe.Result{Check: check, Target: target, Status: status,
		Saw: "saw " + target, Facts: facts}}
}

func TestOne(t *testing.T) {
	t.Parallel()
	rule, err := readCause("upgrade-waits", whole, shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "First paragraph that is wrapped.\nSecond."; rule.Doc != want || rule.Title != "an upgrade waits" {
		t.Errorf("title %q, doc %q", rule.Title, rule.Doc)
	}
	if rule.Fix.OnlyIf[0].If != "it is ours" || rule.Fix.Radius != "this node" ||
		rule.Fixes["other-fix"].Radius != "nothing" {
		t.Errorf("fixes %+v %+v", rule.Fix, rule.Fixes)
	}
	known := Known{Checks: []string{"ipam-files", "pods-start", "node-load"}}
	if bad := Lint(rule, known); len(bad) > 0 {
		t.Error(bad)
	}
	f := diagnose.Findings{Node: "node-a", All: []diagnose.Finding{
		found("ipam-files", "a", probe.Fail, probe.Facts{"reason": "locked", "starts": "address", "holder": 7.0,
			"left": 12.0, "file": "/run/x"}),
		found("ipam-files", "b", probe.Fail, probe.Facts{"reason": "locked", "starts": "other"}),
		found("ipam-files", "c", probe.Fail, probe.Facts{"reason": "free"}),
		found("pods-start", "p1", probe.Warn, probe.Facts{"starts": "address"}),
		found("pods-start", "p2", probe.Warn, probe.Facts{"starts": "address"}),
		found("pods-start", "p3", probe.OK, probe.Facts{"starts": "address"}),
	}}
	cases := rule.Match(f)
	if len(cases) != 2 {
		t.Fatalf("%d cases, want one for each of the two that are locked", len(cases))
	}
	a, b := cases[0], cases[1]
	if want := "{node} waits for an address: saw a (12s); 2 pods of p1, p2"; a.Says != want || a.About != "a" {
		t.Errorf("says %q, want %q", a.Says, want)
	}
	if b.Says != "{node} waits for something: saw b (0s)" || b.FixName != "" || a.FixName != "other-fix" {
		t.Errorf("the second case says %q", b.Says)
	}
	if len(a.For) != 3 || a.For[0].Weight != diagnose.Proof || !a.For[1].Context {
		t.Errorf("evidence %+v", a.For)
	}
	if a.Args["holder"].Typed() != "7" || a.Args["path"].Typed() != "/run/x" || b.Args["path"].Typed() != "FILE" {
		t.Errorf("args %v %v", a.Args, b.Args)
	}
	if len(a.Covers) != 2 || a.Covers[0].About != "x" || a.Covers[1].Check != "one" {
		t.Errorf("covers %v", a.Covers)
	}
	calm := found("node-load", "", probe.OK, probe.Facts{"load": 4.0})
	calm.Node = "node-b"
	f.All = append(f.All, calm)
	if cases := rule.Match(f); cases != nil {
		t.Errorf("a calm node elsewhere rules it out, got %v", cases)
	}
	if steps := rule.Trace(f); len(steps) != 4 || steps[3].Holds || !strings.HasPrefix(steps[0].Text, "calm: ") {
		t.Errorf("trace %+v", steps)
	}
}

// TestBroken breaks the file in one place at a time, and expects an error that names the place.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"no front matter":  {"---\nlayer", "layer", "no front matter"},
		"unknown layer":    {"layer: init", "layer: attic", `"attic" is not a layer`},
		"unknown key":      {"layer: init", "layer: init\ncolour: red", "colour not found"},
		"no title":         {"# an upgrade waits", "an upgrade waits", "no title"},
		"no status":        {"ipam-files fail reason", "ipam-files reason", "needs a status"},
		"odd condition":    {"reason=locked", "locked", "is not a condition"},
		"circle":           {"starts={held.starts}", "starts={pods.starts}", `no selection "pods"`},
		"unknown weight":   {"proof held", "sure held", "does not begin with proof"},
		"unknown shared":   {"@down one", "@up one", "no shared"},
		"unknown type":     {"process {", "procession {", "no type"},
		"unknown format":   {":seconds", ":sekunden", "no format"},
		"unknown words":    {":word kind", ":word sort", "no list of words"},
		"unknown fix":      {"fix: other-fix", "fix: another", `no fix "another"`},
		"always holds":     {"- each: held\n  if: held, not calm\n", "- fault: true\n", "it would always hold"},
		"no sentence":      {"Touches: this node", "", "lacks its sentence"},
		"fix named oddly":  {"## Fix: other-fix", "## Fix: Other Fix", "is neither"},
		"prose behind":     {"Touches: nothing", "Touches: nothing\n\nMore.", "is neither commands"},
		"commands twice":   {"### If it is ours\n", "", "commands without a place"},
		"bad regexp":       {"reason=locked", "reason~~(", "missing closing"},
		"unknown each":     {"- each: held", "- each: holder", "no selection"},
		"says and instead": {`says: "; {pods`, `instead: x, says: "; {pods`, "use one of them"},
	} {
		if !strings.Contains(whole, c.old) {
			t.Errorf("%s: the file has no %q", name, c.old)
		}
		_, err := readCause("upgrade-waits", strings.Replace(whole, c.old, c.new, 1), shared, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := readCause("Bad ID", whole, shared, nil); err == nil {
		t.Error("an ID with a blank is taken")
	}
	if _, err := readCause("x", whole+strings.Repeat("x", maxFile), shared, nil); err == nil {
		t.Error("a file of any size is taken")
	}
}

// TestConditions checks which findings each operator keeps.
func TestConditions(t *testing.T) {
	t.Parallel()
	r := found("c", "tasks here", probe.Warn, probe.Facts{"n": 5.0, "yes": true, "word": "abc", "none": "",
		"list": []any{"x", "y"}, "typed": []string{"z"}})
	for text, want := range map[string]bool{
		"n=5": true, "n=5.0": true, "n!=5": false, "n>4": true, "n<5": false, "n>=5": true, "n<=4": false, "m<5": false,
		"yes=true": true, "yes=false": false, "word=ab|abc": true, "word!=ab|abc": false, "word~b": true, "word~~^a.c$": true,
		"list~x": true, "list~z": false, "typed~z": true, "none?": true, "none??": false, "absent?": false, "!absent?": true,
		"list~~^y$": true, "list~~xy": false, "absent!=x": true,
		"target='tasks here'": true, "lastword=here": true, "status=warn": true, "on=node-a": true,
	} {
		m := &matcher{rule: &diagnose.Rule{}}
		of, err := m.selection("c any " + text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s := scope{diagnose.Findings{Node: "node-a", All: []diagnose.Finding{r}}, nil}
		if got := len(of(s)) == 1; got != want {
			t.Errorf("%s keeps it: %v, want %v", text, got, want)
		}
	}
}

func FuzzOne(f *testing.F) {
	f.Add(whole)
	f.Add("---\nlayer: init\n---\n# a\n")
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := readCause("fuzzed", text, shared, nil)
		if err != nil {
			return
		}
		Lint(rule, Known{})
		rule.Match(diagnose.Findings{Node: "node-a", All: []diagnose.Finding{
			found("ipam-files", "a", probe.Fail, probe.Facts{"reason": "locked", "list": []any{1.0, "x"}})}})
	})
}
