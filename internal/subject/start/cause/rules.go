// Package cause has the causes of the start of calico-node: what each looks like in the findings of a run, and its
// fix. The client alone links it.
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
var own = causefile.Shared{
	Selections: map[string]causefile.SelectionFunc{"hanging": hanging},
	Weights:    map[string]causefile.WeightFunc{"logged": logged, "ended": ended},
	Covers:     map[string]causefile.CoverFunc{"logged-down": loggedDown},
}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"address-unanswered":    addressUnanswered,
	"calico-image":          calicoImage,
	"calico-out-of-memory":  calicoOutOfMemory,
	"calico-pod-waits":      calicoPodWaits,
	"start-far-datastore":   startFarDatastore,
	"start-outlasts-budget": startOutlastsBudget,
	"start-under-load":      startUnderLoad,
}
