package runbook_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/runbook"
)

// TestLint wants one finding in each file of the archive, on its line.
func TestLint(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/lint.txtar")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ": want") {
			want = strings.TrimSpace(string(f.Data))
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			_, err := runbook.Load("x", f.Data, known())
			findings, ok := errors.AsType[runbook.LintError](err)
			if !ok || len(findings) != 1 {
				t.Fatalf("%d findings, want one: %q\n%v\n%s", len(findings), want, findings, f.Data)
			}
			line, what, _ := strings.Cut(want, ": ")
			if got := findings[0].String(); !strings.HasPrefix(got, "x:"+line+": ") || !strings.Contains(got, what) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestLintFindsEverything wants every finding at once, in the order of the lines.
func TestLintFindsEverything(t *testing.T) {
	t.Parallel()
	_, err := runbook.Load("x", []byte(written("  - note: ${params.color}\n  - note: |\n      one\n      two ${steps.a.verdict} ${verdic}\n  - run: {profile: quik}\n")), known())
	findings, ok := errors.AsType[runbook.LintError](err)
	if !ok || len(findings) != 4 {
		t.Fatalf("%v", err)
	}
	for i, line := range []int{8, 11, 11, 12} {
		if findings[i].Line != line {
			t.Errorf("finding %d is of line %d, want %d: %s", i, findings[i].Line, line, findings[i].What)
		}
	}
	if !strings.Contains(err.Error(), "did you mean colour") || !strings.Contains(err.Error(), "3 more") {
		t.Errorf("in one line: %v", err)
	}
}

// TestLintWords wants no word accepted that can never be there.
func TestLintWords(t *testing.T) {
	t.Parallel()
	const ask = "  - name: q\n    ask: {question: a, options: [yes, no]}\n  - name: look\n    run: {}\n"
	for when, bad := range map[string]bool{
		`status("bgp-session") == "failed"`: true, `status("bgp-session") in ["fail", ""]`: false,
		`answers.q == "y"`: true, `"yes" == answers.q`: false, `answers.q != ""`: false,
		`verdict == "ok"`: true, `steps.look.verdict in ["healthy", "fine"]`: true, `verdict == "healthy"`: false,
		`causes.exists(c, c.confidence == "sure")`: true, `causes.exists(c, c.confidence == "high")`: false,
		`results.exists(r, r.status == "bad")`: true, `results.exists(r, r.facts.status == "own")`: false,
	} {
		_, err := runbook.Load("x", []byte(written(ask+"  - when: '"+when+"'\n    note: x\n")), known())
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "it is never") {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// TestWordsAsWritten keeps what YAML's older version made booleans of.
func TestWordsAsWritten(t *testing.T) {
	t.Parallel()
	rb := loaded(t, "  - name: q\n    ask: {question: a, options: [yes, no, on, off]}\n  - run: {on: {names: [y]}}\n")
	if got := strings.Join(rb.Spec.Steps[0].Ask.Options, " "); got != "yes no on off" || rb.Spec.Steps[1].Run.On == nil {
		t.Errorf("got %q, %+v", got, rb.Spec.Steps[1].Run)
	}
}
