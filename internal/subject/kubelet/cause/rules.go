// Package cause has the causes of the kubelet: its certificates, its port, and the way to it: what each looks like in
// the findings of a run, and its fix. The client alone links it.
package cause

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
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
var own = causefile.Shared{Selections: map[string]causefile.SelectionFunc{"taints-of-others": taintsOfOthers}}

// taintsOfOthers are the answers about taints of the control plane that neither a cordon nor the condition
// NetworkUnavailable makes.
func taintsOfOthers(f diagnose.Findings, _ ...string) []diagnose.Finding {
	const prefix = "node.kubernetes.io/"
	return diagnose.Keep(f.Bad(facts.CheckNodeTaints), func(r diagnose.Finding) bool {
		return slices.ContainsFunc(diagnose.ListOf(r, facts.Taints), func(taint string) bool {
			kind, of := strings.CutPrefix(taint, prefix)
			return of && !strings.HasPrefix(kind, "network-unavailable") && !strings.HasPrefix(kind, "unschedulable")
		})
	})
}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"kubelet-cut-off":      kubeletCutOff,
	"kubelet-frozen":       kubeletFrozen,
	"kubelet-port-blocked": kubeletPortBlocked,
}
