// Package cause has the causes of what keeps the probe off a healthy node: what each looks like in the findings of a
// run, and its fix. The client alone links it.
package cause

import (
	"embed"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
)

//go:embed *.md
var files embed.FS

// Rules returns the causes of this subject: a Markdown file each, and a match in Go where data does not suffice.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// own is what several causes of this subject name in their files.
var own = causefile.Shared{}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"probe-image":     probeImage,
	"probe-namespace": probeNamespace,
	"probe-policy":    probePolicy,
	"probe-quota":     probeQuota,
	"probe-rejected":  probeRejected,
	"probe-rights":    probeRights,
}
