// Package cause has the causes of Services and kube-proxy: what each looks like in the findings of a run, and its fix.
// The client alone links it.
package cause

import (
	"embed"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/logs"
)

//go:embed *.md checks
var files embed.FS

// Rules returns the causes of this subject: a Markdown file each, and a match in Go where data does not suffice.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// Checks returns the words of this subject's checks, by ID.
var Checks = sync.OnceValue(func() map[string]causefile.CheckWords { return causefile.MustChecks(files) })

// own is what several causes of this subject name in their files.
var own = causefile.Shared{
	Selections: map[string]causefile.SelectionFunc{
		"dead-services": func(f diagnose.Findings, _ ...string) []diagnose.Finding { dead, _ := brokenPath(f); return dead },
		"live-servers":  func(f diagnose.Findings, _ ...string) []diagnose.Finding { _, live := brokenPath(f); return live },
	},
	Words: map[string]map[string]string{"api": {
		logs.SaysNoAPI:        "does not reach the API server",
		logs.SaysUnauthorized: "is not known to the API server: its token or certificate is refused",
		logs.SaysCertificate:  "does not trust the API server's certificate, or the server not its own",
		logs.SaysForbidden:    "may not read what it needs",
	}},
}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"policy-without-api": policyWithoutAPI,
	"service-hijacked":   serviceHijacked,
}
