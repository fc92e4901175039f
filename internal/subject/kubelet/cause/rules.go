// Package cause explains faults of the kubelet: its certificates, its port, and the path to the API server.
//
// In: the findings of a run (diagnose.Findings). Out: diagnose.Case values with a sentence, evidence and a fix. Rules
// is the entry point: one Markdown file per cause, with a match in Go if the file's data is not enough. The package
// runs no checks. Only the client links it, never the probe.
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

// Rules returns the causes of this subject, parsed once.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// Checks returns the help texts of this subject's checks, by ID.
var Checks = sync.OnceValue(func() map[string]causefile.CheckWords { return causefile.MustChecks(files) })

// own holds the selections that several Markdown files of this subject share.
var own = causefile.Shared{Selections: map[string]causefile.SelectionFunc{"taints-of-others": taintsOfOthers}}

// taintsOfOthers returns the findings with control plane taints other than those that a cordon or the condition
// NetworkUnavailable sets.
func taintsOfOthers(f diagnose.Findings, _ ...string) []diagnose.Finding {
	const prefix = "node.kubernetes.io/"
	return diagnose.Keep(f.Bad(facts.CheckNodeTaints), func(r diagnose.Finding) bool {
		return slices.ContainsFunc(diagnose.ListOf(r, facts.Taints), func(taint string) bool {
			kind, of := strings.CutPrefix(taint, prefix)
			return of && !strings.HasPrefix(kind, "network-unavailable") && !strings.HasPrefix(kind, "unschedulable")
		})
	})
}

// matches holds the matches written in Go, by cause ID.
var matches = map[string]causefile.Match{
	"kubelet-cut-off":      kubeletCutOff,
	"kubelet-frozen":       kubeletFrozen,
	"kubelet-port-blocked": kubeletPortBlocked,
}
