package cause

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// Facts that blocksOf adds to a result, for the Markdown files.
const (
	factBlock     probe.Fact = "block"            // the first of the blocks
	factOne       probe.Fact = "one"              // the first owner of that
	factOther     probe.Fact = "other"            // its last owner, where there are several
	factOwner     probe.Fact = "owner"            // the only other node that owns one of the blocks
	factElsewhere probe.Fact = "owners_elsewhere" // list of all other nodes that own one
)

// blocksOf LIST [any] returns the failed results (any: all results) of route-blocks with blocks in the list, and adds
// the blocks' owners. Conditions in Markdown files cannot look up owners by block.
func blocksOf(f diagnose.Findings, args ...string) []diagnose.Finding {
	of, list := f.Failed(route.RouteBlocks.ID), probe.Fact(args[0])
	if len(args) > 1 {
		of = f.Of(route.RouteBlocks.ID)
	}
	var out []diagnose.Finding
	for _, r := range of {
		lists, _ := r.Facts[route.FactOwners].(map[string]any)
		owners, _ := lists[args[0]].(map[string]any)
		if len(diagnose.ListOf(r, list)) == 0 || len(owners) == 0 {
			continue
		}
		nodesOf := func(block string) []string {
			return diagnose.ListOf(diagnose.Finding{Result: probe.Result{Facts: probe.Facts{list: owners[block]}}}, list)
		}
		blocks := slices.Sorted(maps.Keys(owners))
		r.Facts = maps.Clone(r.Facts)
		r.Facts[factBlock] = blocks[0]
		if of := nodesOf(blocks[0]); len(of) > 0 {
			r.Facts[factOne] = of[0]
			r.Facts[factOther] = strings.Join(of[max(1, len(of)-1):], "")
		}
		var elsewhere []string
		for _, block := range blocks {
			elsewhere = append(elsewhere, nodesOf(block)...)
		}
		slices.Sort(elsewhere)
		elsewhere = slices.DeleteFunc(slices.Compact(elsewhere), func(node string) bool { return node == f.Node })
		r.Facts[factElsewhere] = elsewhere
		if len(elsewhere) == 1 {
			r.Facts[factOwner] = elsewhere[0]
		}
		out = append(out, r)
	}
	return out
}

// pathsTo FAMILY NODES returns the results that follow from broken paths to some nodes. NODES is separated by commas.
func pathsTo(f diagnose.Findings, args ...string) []diagnose.Cover {
	family, _ := strconv.Atoi(args[0])
	var out []diagnose.Cover
	for node := range strings.SplitSeq(args[1], ", ") {
		if node != "" {
			out = append(out, evidence.PathFollows(f, family, node)...)
		}
	}
	return out
}
