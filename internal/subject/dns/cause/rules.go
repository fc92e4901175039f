// Package cause has the causes of name resolution: what each looks like in the findings of a run, and its fix. The
// client alone links it.
package cause

import (
	"embed"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
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
var own = causefile.Shared{}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"cluster-dns-wrong":    clusterDNSWrong,
	"cluster-domain-wrong": clusterDomainWrong,
	"policy-without-dns":   policyWithoutDNS,
}
