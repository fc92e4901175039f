package compare

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
)

// Limits for a comparison, which has less than a dozen lines, including its header.
const (
	maxChecks   = 5
	maxSessions = 4
)

// Nodes compares the diagnosed node with its baseline nodes in a few lines. They show the checks that failed only on
// this node or on both, the node's ports as seen from a baseline node, and both ends of the BGP sessions between them.
// It returns no lines if no baseline node answered, or if the diagnosed node answered and no check failed.
func Nodes(f diagnose.Findings) []string {
	if isFine(f) {
		return nil
	}
	var baseline []string
	for _, node := range f.Others() {
		if slices.ContainsFunc(f.At(node).Where(diagnose.Everything),
			func(r diagnose.Finding) bool { return diagnose.IsAnswered(r.Status) }) {
			baseline = append(baseline, node)
		}
	}
	if len(baseline) == 0 {
		return nil
	}
	var lines, ids []string
	for _, r := range f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }) {
		if r.Check != bgp.BGPSession.ID && !slices.Contains(ids, r.Check) && len(f.Elsewhere(r.Check)) > 0 {
			ids = append(ids, r.Check)
		}
	}
	for i, id := range ids {
		if i == maxChecks {
			lines = append(lines, fmt.Sprintf("and %d more with -o json: %s", len(ids)-i, strings.Join(ids[i:], ", ")))
			break
		}
		lines = append(lines, fmt.Sprintf("%-18s %s", id, compared(f, id, baseline)))
	}
	lines = append(lines, diff.StateLines(f)...)
	for _, node := range baseline {
		lines = append(lines, seenFrom(f, node)...)
	}
	head := "compared with baseline node "
	if len(baseline) > 1 {
		head = "compared with baseline nodes "
	}
	return append([]string{head + strings.Join(baseline, ", ") + ":"}, append(lines, sessions(f, baseline)...)...)
}

// isFine reports whether a probe on the node answered and no check failed.
func isFine(f diagnose.Findings) bool {
	return len(diagnose.Good(f, probe.CheckPlaced)) > 0 &&
		len(f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })) == 0
}

// compared returns the baseline nodes' results for a check that failed on the diagnosed node.
func compared(f diagnose.Findings, id string, baseline []string) string {
	var parts, targets []string
	for _, r := range f.Of(id) {
		if diagnose.IsBad(r.Status) {
			targets = append(targets, r.Target)
		}
	}
	same := func(r diagnose.Finding) bool { return slices.Contains(targets, r.Target) }
	for _, node := range baseline {
		var good, info, worst, about []diagnose.Finding
		for _, r := range f.At(node).Of(id) {
			switch {
			case diagnose.IsBad(r.Status) && diagnose.Concerns(r, f.Node):
				about = append(about, r)
			case diagnose.IsBad(r.Status):
				worst = append(worst, r)
			case r.Status == probe.OK:
				good = append(good, r)
			case diagnose.IsAnswered(r.Status):
				info = append(info, r)
			}
		}
		switch {
		case len(worst) > 0:
			parts = append(parts, fmt.Sprintf("also failing on %s: %s", node, brief(worst[0])))
		case len(about) > 0:
			parts = append(parts, fmt.Sprintf("%s fails only towards %s: %s", node, f.Node, brief(about[0])))
		case slices.ContainsFunc(good, same):
			parts = append(parts, fmt.Sprintf("ok on %s: %s", node, brief(diagnose.Keep(good, same)[0])))
		case len(good) > 0:
			parts = append(parts, fmt.Sprintf("ok on %s, for other targets: %s", node, brief(good[0])))
		case len(info) > 0:
			parts = append(parts, fmt.Sprintf("on %s: %s", node, brief(info[0])))
		default:
			parts = append(parts, "no answer on "+node)
		}
	}
	return strings.Join(parts, "; ")
}

// widthSaw is the maximum width of a sentence in a comparison. The results have the full text.
const widthSaw = 90

func brief(r diagnose.Finding) string {
	text := strings.TrimSpace(r.Target + " " + r.Saw)
	if short := []rune(text); len(short) > widthSaw {
		text = string(short[:widthSaw]) + "…"
	}
	return text
}

// seenFrom returns which of the node's addresses and ports answer a baseline node. Addresses with the same result share
// an entry.
func seenFrom(f diagnose.Findings, node string) []string {
	var kinds []string
	answers, mute := map[string]bool{}, map[string]bool{}
	silent, at := map[string][]string{}, map[string][]string{}
	for _, r := range f.At(node).Of(link.NeighbourReach.ID) {
		if r.Status == probe.Skip || r.Facts[link.FactReference] == true {
			continue
		}
		kind, addr := splitAddr(strings.TrimPrefix(r.Target, f.Node+" "))
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if r.Status == probe.OK {
			answers[kind] = true
			if r.Facts[link.FactSpeaks] == false {
				mute[kind] = true
			}
			continue
		}
		why := cmp.Or(r.Facts.Str(probe.FactReason), string(r.Status))
		// Other states prove nothing. For example, "reachable" may be half a minute old.
		if state := r.Facts.Str(link.FactNeighbour); state == "failed" || state == "incomplete" {
			why += ", neighbour entry " + state
		}
		silent[kind] = append(silent[kind], why)
		at[kind] = append(at[kind], addr)
	}
	var good, taken, not []string
	for _, kind := range kinds {
		switch why := silent[kind]; {
		case len(why) == 0 && mute[kind]:
			taken = append(taken, kind)
		case len(why) == 0:
			good = append(good, kind)
		case answers[kind]:
			// Name the address only if another address answers.
			not = append(not, fmt.Sprintf("%s of %s (%s)", kind, strings.Join(at[kind], " and "), why[0]))
		default:
			not = append(not, fmt.Sprintf("%s (%s)", kind, why[0]))
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	var parts []string
	if len(good) > 0 {
		parts = append(parts, "answers "+strings.Join(good, ", "))
	}
	if len(taken) > 0 {
		parts = append(parts, "accepts connections, but answers no request: "+strings.Join(taken, ", "))
	}
	if len(not) > 0 {
		parts = append(parts, "no answer: "+strings.Join(not, ", "))
	}
	return []string{fmt.Sprintf("%s seen from %s: %s", f.Node, node, strings.Join(parts, "; "))}
}

// splitAddr splits the address off a target.
func splitAddr(what string) (kind, addr string) {
	var rest []string
	for word := range strings.FieldsSeq(what) {
		if _, err := netip.ParseAddr(word); err == nil {
			addr = word
		} else {
			rest = append(rest, word)
		}
	}
	return strings.Join(rest, " "), addr
}

// sessions returns both ends of the BGP sessions with the baseline nodes.
func sessions(f diagnose.Findings, baseline []string) []string {
	type pair struct{ here, there []diagnose.Finding }
	var lines []string
	for _, node := range baseline {
		byFamily := map[float64]*pair{}
		at := func(r diagnose.Finding) *pair {
			family, _ := r.Facts.Num(probe.FactFamily)
			if byFamily[family] == nil {
				byFamily[family] = &pair{}
			}
			return byFamily[family]
		}
		for _, r := range f.Of(bgp.BGPSession.ID) {
			if diagnose.Concerns(r, node) {
				at(r).here = append(at(r).here, r)
			}
		}
		for _, r := range f.At(node).Of(bgp.BGPSession.ID) {
			if diagnose.Concerns(r, f.Node) {
				at(r).there = append(at(r).there, r)
			}
		}
		for _, family := range []float64{4, 6} {
			p := byFamily[family]
			if p == nil {
				continue
			}
			if len(lines) == maxSessions {
				return append(lines, "more BGP sessions with -o json")
			}
			lines = append(lines, fmt.Sprintf("BGP IPv%.0f  %s to %s: %s | %s to %s: %s", family, f.Node, node,
				state(f, p.here, family), node, f.Node, state(f.At(node), p.there, family)))
		}
	}
	return lines
}

// state returns one end of a session, as BIRD on that node reports it: "start Passive", "start Connect, Connection
// refused".
func state(f diagnose.Findings, of []diagnose.Finding, family float64) string {
	if len(of) == 0 {
		for _, r := range f.With(bgp.BGPSession.ID, probe.FactFamily, family) {
			if r.Status == probe.Unknown {
				return "BIRD does not answer"
			}
		}
		if !f.Answered(bgp.BGPSession.ID) {
			return "not checked"
		}
		return "has no such session"
	}
	facts := of[0].Facts
	text := cmp.Or(facts.Str(bgp.FactBGPState), facts.Str(bgp.FactState), of[0].Saw)
	if facts.Str(bgp.FactState) == "start" {
		text = "start " + facts.Str(bgp.FactBGPState)
	}
	if last := facts.Str(bgp.FactLastError); last != "" && of[0].Status != probe.OK {
		text += ", " + last
	}
	hold, known := facts.Num(bgp.FactHold)
	left, _ := facts.Num(bgp.FactHoldLeft)
	// A BIRD peer sends a keepalive three times per hold time.
	if known && of[0].Status == probe.OK && left < hold/3 {
		text += fmt.Sprintf(", but nothing received for %.0f s", hold-left)
	}
	return text
}
