package runbook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// FuzzLoad requires any text to be a runbook, or to have findings on existing lines. It fuzzes the form only:
// instrumenting CEL takes minutes.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(written(every)))
	archive := must.Get(txtar.ParseFile("testdata/lint.txtar"))(f)
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, finding := range runbook.Form(text) {
			if finding.Line < 1 || finding.Line > strings.Count(string(text), "\n")+2 || strings.Contains(finding.What, "\n") {
				t.Errorf("%s", finding)
			}
		}
	})
}

// FuzzPieces requires that a split text can be joined to the same text.
func FuzzPieces(f *testing.F) {
	for _, text := range []string{"", "a ${b} c", "$${a} ${{'}': \"}\"}['}']}", "${", "${a", "$$${a}", "a$"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := runbook.Parts(text); err == nil && got != text {
			t.Errorf("%q came to %q", text, got)
		}
	})
}

// FuzzJournal requires every readable journal to have a first line that can be written again.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"v":1,"kind":"RunbookJournal","node":"a"}
{"type":"begin","key":"1"}
{"type":"end","key":"1","out":{"a":1}}
{"type":"outcome","out":{"verdict":"fault","exit":3}}
`))
	f.Add([]byte(`{"kind":"RunbookJournal"}
{"type":"end"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, ended, err := runbook.ReadJournal(text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(j.Header); err != nil || ended > strings.Count(string(text), "\n")+1 {
			t.Errorf("%d effects have ended in %q, %v", ended, text, err)
		}
	})
}
