package mesh

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// minWidth is the width of a report if there is no terminal. Lines wider than maxWidth are hard to read on any
// terminal.
const (
	minWidth = 80
	maxWidth = 110
)

// Limits: the number of findings with their own lines, and others.
const (
	shownFindings = 10
	shownZones    = 8
	shownNodes    = 5  // in a command
	maxZoneName   = 17 // columns
)

// planeSays are the titles of planes.
var planeSays = map[string]string{
	PlaneNode: "between nodes", PlanePod: "from nodes to pods on other nodes", PlaneTCP: "TCP to kubelets and pods on other nodes",
	PlaneMTU: "full-size packets to pods on other nodes", PlaneBGP: "BGP sessions, as reported by both ends",
}

// sheet collects the lines of a text with a given width.
type sheet struct {
	strings.Builder
	width int
}

// put adds a text. Its continuation lines are indented two columns further.
func (s *sheet) put(indent int, text string) {
	before, next := strings.Repeat(" ", indent), strings.Repeat(" ", 2*indent)
	for i, line := range probe.Wrap(probe.Line(text), s.width-len(next)) {
		if i > 0 {
			before = next
		}
		fmt.Fprintln(s, before+line)
	}
}

// Write writes the report for people on a terminal with a given width; 0 = no terminal. Findings come first, then
// planes with failed paths, then working planes. The summary is repeated at the end.
func (r Report) Write(w io.Writer, width int) error {
	s := &sheet{width: min(cmp.Or(width, minWidth), maxWidth)}
	s.put(0, r.sum())
	if next := r.next(); next != "" {
		fmt.Fprintf(s, "\n  next  %s\n", next) // unwrapped: users copy the command
	}
	var works []Plane
	for _, p := range r.Planes {
		if p.Failed+p.Lossy+p.Unknown+len(p.Silent) == 0 {
			works = append(works, p)
			continue
		}
		p.write(s, r.Nodes)
	}
	if len(works) > 0 {
		fmt.Fprintln(s)
	}
	for _, p := range works {
		s.put(0, planeSays[p.Name]+": "+p.sum())
		p.writeZones(s, r.Nodes)
	}
	r.writeLeft(s)
	at := ""
	if r.Cluster != nil {
		at = "; cluster " + r.Cluster.String()
	}
	took := r.Elapsed.Round(100 * time.Millisecond)
	fmt.Fprintln(s)
	s.put(0, fmt.Sprintf("%s: %s; %d nodes in %s%s", r.Word, r.sum(), len(r.Nodes), took, at))
	_, err := io.WriteString(w, s.String())
	return err
}

// writeLeft names the nodes from which no path was tried, with the reason.
func (r Report) writeLeft(s *sheet) {
	var left []Member
	for _, n := range r.Nodes {
		if n.Untested != "" {
			left = append(left, n)
		}
	}
	for i, n := range left {
		if i == shownFindings {
			s.put(0, fmt.Sprintf("and %d more nodes, with -o json", len(left)-i))
			break
		}
		fmt.Fprintln(s)
		s.put(0, "not tested from "+n.Name+": "+n.Untested)
	}
}

// next returns the command that examines the first finding, or "" if there are no findings.
func (r Report) next() string {
	for _, p := range r.Planes {
		if len(p.Findings) > 0 {
			return "calico-probe run " + r.selecting(p.Findings[0])
		}
	}
	return ""
}

// selecting returns the arguments for run that select a finding's nodes.
func (r Report) selecting(f Finding) string {
	const zoneLabel = "topology.kubernetes.io/zone"
	switch {
	case f.Kind == kindZone:
		return "-l " + probe.Quote(probe.Line(zoneLabel+"="+f.Names[0]))
	case f.Kind == kindZones:
		return "-l " + probe.Quote(probe.Line(zoneLabel+" in ("+strings.Join(f.Names, ",")+")"))
	}
	var names []string
	for _, n := range r.Nodes {
		if len(names) < shownNodes && f.concerns(n) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return "--all-nodes"
	}
	return probe.Quote(probe.Line(strings.Join(names, ",")))
}

// concerns reports whether to examine a node for a finding. If the finding is about a peer outside the cluster, these
// are the nodes whose session with the peer is down.
func (f Finding) concerns(n Member) bool {
	switch f.Kind {
	case KindNode, KindPair:
		return slices.Contains(f.Names, n.Name)
	case kindRack:
		return n.Rack == f.Names[0] && (len(f.Names) < 2 || n.Zone == f.Names[1])
	case kindPeer:
		return slices.ContainsFunc(f.Paths, func(p Ends) bool { return p.From == n.Name || p.To == n.Name })
	}
	return false
}

// write shows a plane: its findings, and a table of failed paths by zone.
func (p Plane) write(s *sheet, nodes []Member) {
	fmt.Fprintln(s)
	s.put(0, planeSays[p.Name]+": "+p.sum())
	if p.Left != "" {
		return
	}
	var lines []string
	for i, f := range p.Findings {
		line := f.Says()
		if i < shownFindings { // further findings have no line
			line += strings.TrimSuffix(": "+p.why(f), ": ")
		}
		lines = append(lines, line)
	}
	for _, silent := range p.Silent {
		lines = append(lines, "not reported by "+silent)
	}
	for i, line := range lines {
		if i == shownFindings {
			s.put(2, fmt.Sprintf("%d more with -o json", len(lines)-i))
			break
		}
		s.put(2, line)
	}
	p.writeZones(s, nodes)
}

// why returns the observation on most of a finding's failed paths, or "" if it is unknown.
func (p Plane) why(f Finding) string {
	saw, of := map[string]int{}, map[Ends]bool{}
	for _, path := range f.Paths {
		of[path] = true
	}
	most := ""
	for _, t := range p.Trials {
		if !t.Failed || len(of) > 0 && !of[Ends{t.From, t.To}] {
			continue
		}
		saw[t.Saw]++
		if most == "" || saw[t.Saw] > saw[most] || saw[t.Saw] == saw[most] && t.Saw < most {
			most = t.Saw
		}
	}
	return most
}

// sum returns the first finding and the number of further findings. A finding in several planes counts once.
func (r Report) sum() string {
	lacks := ""
	if r.Lacks != "" {
		lacks = "the run did not finish: " + probe.Line(r.Lacks)
	}
	first, places := "", map[string]bool{}
	for _, p := range r.Planes {
		for _, f := range p.Findings {
			first = cmp.Or(first, f.Says())
			places[f.place()] = true
		}
	}
	switch n := len(places); {
	case n == 0 && lacks != "":
		return lacks
	case n == 0:
		return r.sumOfWorking()
	case n > 1:
		first = fmt.Sprintf("%s, and %d more", first, n-1)
	}
	if lacks != "" { // findings come first: they are the answer
		first += "; " + lacks
	}
	return first
}

// sumOfWorking returns the summary of a mesh without failed paths.
func (r Report) sumOfWorking() string {
	tested, lossy, unknown, silent := 0, 0, 0, 0
	for _, p := range r.Planes {
		lossy, unknown, silent = lossy+p.Lossy, unknown+p.Unknown, silent+len(p.Silent)
	}
	for _, n := range r.Nodes {
		if n.Untested == "" {
			tested++
		}
	}
	text := fmt.Sprintf("all paths work (from %d of %d nodes)", tested, len(r.Nodes))
	if lossy+unknown > 0 {
		text = fmt.Sprintf("no path fails (from %d of %d nodes)", tested, len(r.Nodes))
	}
	if lossy > 0 {
		text += fmt.Sprintf(", %d lose packets", lossy)
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d unknown", unknown)
	}
	switch {
	case silent == 1:
		text += ", 1 node does not report all its BGP sessions"
	case silent > 1:
		text += fmt.Sprintf(", %d nodes do not report all their BGP sessions", silent)
	}
	return text
}
