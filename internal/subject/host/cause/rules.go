// Package cause has the causes of the machine: memory, disks, load, clock, limits, ports, its kernel: what each looks
// like in the findings of a run, and its fix. The client alone links it.
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
var own = causefile.Shared{Selections: map[string]causefile.SelectionFunc{
	"plenty-of-memory": func(f diagnose.Findings, _ ...string) []diagnose.Finding { return plentyOfMemory(f) },
}}

// matches are those in Go, by the ID of their cause.
var matches = map[string]causefile.Match{
	"calico-process-killed": calicoKilled,
	"clock-wrong":           clockWrong,
	"conntrack-full":        conntrackFull,
	"disk-full":             diskFull,
	"eviction-threshold":    evictionThreshold,
	"forwarding-off":        forwardingOff,
	"port-taken":            portTaken,
}
