// Package cause has the causes of firewalls, policies, conntrack and dropped packets. In: the findings of a run
// (diagnose.Findings), about a node and its peers. Out: cases (diagnose.Case), each with its sentence, evidence, the
// checks it explains and its fix.
//
// Rules is the entry point: one Markdown file per cause, and a match in Go, by ID, if data is not enough. It queries no
// node and ranks no cause: the checks and package diagnose do. Only the client links it.
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

// Rules returns the causes of this subject: a Markdown file each, and a match in Go if data is not enough.
var Rules = sync.OnceValue(func() []*diagnose.Rule {
	return causefile.Must(files, evidence.Shared().With(own), matches)
})

// Checks returns the help texts of this subject's checks, by ID.
var Checks = sync.OnceValue(func() map[string]causefile.CheckWords { return causefile.MustChecks(files) })

// own has the conditions that several causes of this subject share.
var own = causefile.Shared{}

// matches has the matches written in Go, by cause ID.
var matches = map[string]causefile.Match{
	"dropped-here":          droppedHere,
	"firewall-forward-drop": firewallForwardDrop,
	"firewall-rejects":      firewallRejects,
	"firewall-rewritten":    firewallRewritten,
	"hostendpoint-blocks":   hostEndpointBlocks,
	"hostendpoint-isolates": hostEndpointIsolates,
	"input-closed":          inputClosed,
	"node-turns-away":       nodeTurnsAway,
	"peer-firewall":         peerWalled,
	"pods-filtered":         podsFiltered,
	"policy-forbids":        policyForbids,
	"port-refused-here":     portWalled,
	"rule-drops":            ruleDrops,
	"source-unexpected":     sourceUnexpected,
	"uplink-down":           uplinkDown,
}
