// Package cause explains what keeps the probe off a healthy node.
//
// In: the findings of a run (diagnose.Findings). Out: diagnose.Case values with a sentence, evidence and a fix.
// Rules is the entry point: one Markdown file per cause.
// The package runs no checks and places no probe. Only the client links it, never the probe.
package cause

import (
	"embed"
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
)

//go:embed *.md
var files embed.FS

// Rules returns the causes of this subject, parsed once.
var Rules = sync.OnceValue(func() []*diagnose.Rule { return causefile.Must(files, evidence.Shared().With(own), nil) })

// own holds what several Markdown files of this subject share.
var own = causefile.Shared{
	Weights: map[string]causefile.WeightFunc{"kept-off": keptOff},
	Args:    map[string]causefile.Args{"grantee": {Names: []string{"whom"}, Of: grantee}},
}

// keptOff weighs the reason why no access method reached the node. If the API shows a fault of the node itself, that is
// more relevant to users, so the reason is only a hint.
func keptOff(f diagnose.Findings, refused []diagnose.Finding) []diagnose.Clue {
	if slices.ContainsFunc(f.All, func(r diagnose.Finding) bool { return r.Node == f.Node && diagnose.IsBad(r.Status) }) {
		return diagnose.Hints(refused)
	}
	return diagnose.Proves(refused)
}

// grantee returns the flag that grants rights to a user of the API.
func grantee(_ diagnose.Findings, user ...string) map[string]diagnose.Arg {
	who := user[0]
	return map[string]diagnose.Arg{
		"whom": diagnose.CheckedArg(probe.UserFlag(who), who != "" && diagnose.IsWord(who), " --user=YOU")}
}
