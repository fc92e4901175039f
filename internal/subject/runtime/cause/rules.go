// Package cause explains failures of container runtimes, and pods that a runtime cannot start.
//
// In: the findings of a run (diagnose.Findings). Out: diagnose.Case values with a sentence, evidence and a fix. Rules
// is the entry point: one Markdown file per cause, with a match in Go if the file's data is not enough. The package
// runs no checks. Only the client links it, never the probe.
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

// Rules returns the causes of this subject, parsed once.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// Checks returns the help texts of this subject's checks, by ID.
var Checks = sync.OnceValue(func() map[string]causefile.CheckWords { return causefile.MustChecks(files) })

// own holds what several Markdown files of this subject share.
var own = causefile.Shared{Covers: map[string]causefile.CoverFunc{"runtime-gone": causefile.Always(runtimeGone)}}

// matches holds the matches written in Go, by cause ID.
var matches = map[string]causefile.Match{
	"pause-image-missing": pauseImageMissing,
	"registry-refuses":    registryRefuses,
	"runtime-ends":        runtimeEnds,
	"runtime-stuck":       runtimeStuck,
}
