// Package cause has the causes of what keeps the probe off a healthy node: what each looks like in the findings of a
// run, and its fix. The client alone links it.
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

// Rules returns the causes of this subject: a Markdown file each.
var Rules = sync.OnceValue(func() []*diagnose.Rule { return causefile.Must(files, evidence.Shared().With(own), nil) })

// own is what several causes of this subject name in their files.
var own = causefile.Shared{
	Weights: map[string]causefile.WeightFunc{"kept-off": keptOff},
	Args:    map[string]causefile.Args{"grantee": {Names: []string{"whom"}, Of: grantee}},
}

// keptOff weighs why no access method led onto the node. While the API itself sees something wrong with the node, that
// is likelier what people look for.
func keptOff(f diagnose.Findings, refused []diagnose.Finding) []diagnose.Clue {
	if slices.ContainsFunc(f.All, func(r diagnose.Finding) bool { return r.Node == f.Node && diagnose.IsBad(r.Status) }) {
		return diagnose.Hints(refused)
	}
	return diagnose.Proves(refused)
}

// grantee is the flag that grants rights to a user of the API.
func grantee(_ diagnose.Findings, user ...string) map[string]diagnose.Arg {
	who := user[0]
	return map[string]diagnose.Arg{
		"whom": diagnose.CheckedArg(probe.UserFlag(who), who != "" && diagnose.IsWord(who), " --user=YOU")}
}
