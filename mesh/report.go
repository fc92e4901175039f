package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// KindReport tells a Report from other JSON.
const KindReport = "MeshReport"

// Report is what the paths between nodes were found to be, as -o json writes it.
type Report struct {
	V       int            `json:"v"`
	Kind    string         `json:"kind"`    // MeshReport
	Version string         `json:"version"` // of the program that concluded
	Run     string         `json:"run"`
	Cluster *probe.Cluster `json:"cluster,omitempty"`
	Time    time.Time      `json:"time,omitzero"` // when it began, by the client's clock
	Word    string         `json:"verdict"`       // healthy, warnings, incomplete or fault
	Exit    int            `json:"exit"`
	Elapsed time.Duration  `json:"elapsed_ns"`
	Nodes   []Member       `json:"nodes"`
	Planes  []Plane        `json:"planes"`
	Lacks   string         `json:"lacks,omitempty"` // why it did not come to its end, "" = it did
}

// Member is a node of the mesh.
type Member struct {
	Name  string `json:"name"`
	Zone  string `json:"zone,omitempty"`
	Rack  string `json:"rack,omitempty"`
	Asked string `json:"not_asked,omitempty"` // why no path from there was tried, "" = they were
}

// Plane is one kind of path between the nodes.
type Plane struct {
	Name     string    `json:"name"` // one of Planes
	Tried    int       `json:"tried"`
	Failed   int       `json:"failed"`
	Lossy    int       `json:"lossy"`              // some packets came back, and some did not
	Unknown  int       `json:"unknown"`            // paths that were to be tried, and how they are is not known
	Held     int       `json:"held"`               // paths to pods that a network policy may shut off: none fails
	Silent   []string  `json:"silent,omitempty"`   // of bgp: nodes that could not tell their sessions, and why
	Outside  []string  `json:"outside,omitempty"`  // of bgp: addresses of peers that are no nodes
	Left     string    `json:"left_out,omitempty"` // why there is nothing of it to try, "" = there is
	Findings []Finding `json:"findings"`
	Trials   []Trial   `json:"paths"`
	More     int       `json:"more_paths,omitempty"` // how many more there are, which -o json has no room for
}

// mostTrials is how many paths a plane has in JSON: each node of a mesh of BGP has a session with each.
const mostTrials = 100_000

// MarshalJSON leaves out paths where there are too many, those that work before those that fail.
func (p Plane) MarshalJSON() ([]byte, error) {
	type plain Plane
	if more := len(p.Trials) - mostTrials; more > 0 {
		worst := func(t Trial) int { return slices.Index([]string{"fail", "unknown", "lossy", "ok"}, t.word()) }
		p.Trials = slices.SortedStableFunc(slices.Values(p.Trials), func(a, b Trial) int { return worst(a) - worst(b) })
		p.Trials, p.More = p.Trials[:mostTrials], more
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as in the rest of the report
	err := enc.Encode(plain(p))
	return b.Bytes(), err
}

// The names of planes.
const (
	PlaneNode = "node" // pings between the nodes' own addresses
	PlanePod  = "pod"  // pings from a node to a pod on the other
	PlaneTCP  = "tcp"  // connections to the other's kubelet, and to its pod
	PlaneMTU  = "mtu"  // full-size packets to the pod
	PlaneBGP  = "bgp"  // a BGP session, as the node tells it where the path begins
)

// Planes are all there are, in the order of reports.
func Planes() []string { return []string{PlaneNode, PlanePod, PlaneTCP, PlaneMTU, PlaneBGP} }

// Trial is what became of one path.
type Trial struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Sent     int     `json:"sent"`     // packets, or connections that were tried
	Received int     `json:"received"` // packets that came back, or connections that were answered
	RTT      float64 `json:"rtt_ms,omitempty"`
	Failed   bool    `json:"failed"` // nothing came back
	Saw      string  `json:"saw"`
}

// Write writes the report for people: what was found first, planes with failing paths before those that work, and at
// last the same answer again.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.sum())
	if next := r.next(); next != "" {
		fmt.Fprintf(&b, "\n  next  %s\n", next)
	}
	var works []Plane
	for _, p := range r.Planes {
		if p.Failed+p.Lossy+p.Unknown+len(p.Silent) == 0 {
			works = append(works, p)
			continue
		}
		p.write(&b, r.Nodes)
	}
	if len(works) > 0 {
		fmt.Fprintln(&b)
	}
	for _, p := range works {
		fmt.Fprintf(&b, "%s: %s\n", planeSays[p.Name], probe.Line(p.sum()))
		p.writeZones(&b, r.Nodes)
	}
	r.writeLeft(&b)
	at := ""
	if r.Cluster != nil {
		at = "; cluster " + r.Cluster.String()
	}
	took := r.Elapsed.Round(100 * time.Millisecond)
	fmt.Fprintf(&b, "\n%s: %s; %d nodes in %s%s\n", r.Word, r.sum(), len(r.Nodes), took, at)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLeft names the nodes from which no path was tried.
func (r Report) writeLeft(b *strings.Builder) {
	var left []Member
	for _, n := range r.Nodes {
		if n.Asked != "" {
			left = append(left, n)
		}
	}
	for i, n := range left {
		if i == shownFindings {
			fmt.Fprintf(b, "and %d more nodes, with -o json\n", len(left)-i)
			break
		}
		fmt.Fprintf(b, "\nnot tested from %s: %s\n", probe.Line(n.Name), probe.Line(n.Asked))
	}
}

// next is the command that says more about what was found first, "" where nothing was found.
func (r Report) next() string {
	for _, p := range r.Planes {
		for _, f := range p.Findings {
			switch f.Kind {
			case KindNode:
				return "calico-probe run " + probe.Quote(probe.Line(f.Names[0]))
			case KindPair:
				return "calico-probe run " + probe.Quote(probe.Line(f.Names[0]+","+f.Names[1]))
			}
			return "calico-probe run --all-nodes"
		}
	}
	return ""
}

// Of what was found so much has a line of its own.
const (
	shownFindings = 10
	shownZones    = 8
)

// write shows a plane: what was found, and zone by zone how many paths fail.
func (p Plane) write(b *strings.Builder, nodes []Member) {
	fmt.Fprintf(b, "\n%s: %s\n", planeSays[p.Name], probe.Line(p.sum()))
	if p.Left != "" {
		return
	}
	var lines []string
	for i, f := range p.Findings {
		line := f.Says()
		if i < shownFindings { // others have no line
			line += strings.TrimSuffix(": "+p.why(f), ": ")
		}
		lines = append(lines, line)
	}
	for _, s := range p.Silent {
		lines = append(lines, "not reported by "+s)
	}
	for i, line := range lines {
		if i == shownFindings {
			fmt.Fprintf(b, "  %d more with -o json\n", len(lines)-i)
			break
		}
		fmt.Fprintf(b, "  %s\n", probe.Line(line))
	}
	p.writeZones(b, nodes)
}

// why is what most of a finding's failing paths saw, "" where it is not known.
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

// planeSays is what a plane is called.
var planeSays = map[string]string{
	PlaneNode: "between nodes", PlanePod: "from nodes to pods of others", PlaneTCP: "TCP to kubelets and pods of other nodes",
	PlaneMTU: "full-size packets to pods of other nodes", PlaneBGP: "BGP sessions, as reported by both ends",
}

// writeZones is a table of the zones: from each row to each column.
func (p Plane) writeZones(b *strings.Builder, nodes []Member) {
	zone := map[string]string{}
	var all []string
	for _, n := range nodes {
		zone[n.Name] = cmp.Or(n.Zone, "-")
		if !slices.Contains(all, zone[n.Name]) {
			all = append(all, zone[n.Name])
		}
	}
	if len(all) < 2 || len(all) > shownZones {
		return
	}
	slices.Sort(all)
	cells := map[[2]string]*cell{}
	for _, t := range p.Trials {
		key := [2]string{zone[t.From], zone[t.To]}
		if zone[t.To] == "" { // it is none of these nodes
			continue
		}
		if cells[key] == nil {
			cells[key] = &cell{}
		}
		cells[key].add(t)
	}
	const width = 16
	fmt.Fprintf(b, "  %-*s", width, "from \\ to")
	for _, to := range all {
		fmt.Fprintf(b, " %-*s", width, probe.Line(to))
	}
	fmt.Fprintln(b)
	for _, from := range all {
		line := fmt.Sprintf("  %-*s", width, probe.Line(from))
		for _, to := range all {
			line += fmt.Sprintf(" %-*s", width, cells[[2]string{from, to}])
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
}

// cell is the paths from one zone to another.
type cell struct {
	tried, failed int
	rtts          []float64
}

func (c *cell) add(t Trial) {
	c.tried++
	if t.Failed {
		c.failed++
	} else if t.RTT > 0 {
		c.rtts = append(c.rtts, t.RTT)
	}
}

// String is "3/20 fail, 1.2ms": the time is the one in the middle.
func (c *cell) String() string {
	if c == nil {
		return "-"
	}
	text := "ok"
	if c.failed > 0 {
		text = fmt.Sprintf("%d/%d fail", c.failed, c.tried)
	}
	if len(c.rtts) > 0 {
		slices.Sort(c.rtts)
		text += fmt.Sprintf(" %.1fms", c.rtts[len(c.rtts)/2])
	}
	return text
}

// sum is what was found first, and how much more there is; what several planes have found counts once.
func (r Report) sum() string {
	if r.Lacks != "" {
		return "the run did not come to its end: " + probe.Line(r.Lacks)
	}
	first, places := "", map[string]bool{}
	asked, lossy, unknown, silent := 0, 0, 0, 0
	for _, p := range r.Planes {
		for _, f := range p.Findings {
			first = cmp.Or(first, f.Says())
			place, _, _ := strings.Cut(f.Says(), ": ")
			places[place] = true
		}
		lossy, unknown, silent = lossy+p.Lossy, unknown+p.Unknown, silent+len(p.Silent)
	}
	for _, n := range r.Nodes {
		if n.Asked == "" {
			asked++
		}
	}
	switch n := len(places); {
	case n == 1:
		return first
	case n > 1:
		return fmt.Sprintf("%s, and %d more", first, n-1)
	}
	text := fmt.Sprintf("all paths work (from %d of %d nodes)", asked, len(r.Nodes))
	if lossy+unknown > 0 {
		text = fmt.Sprintf("no path fails (from %d of %d nodes)", asked, len(r.Nodes))
	}
	if lossy > 0 {
		text += fmt.Sprintf(", %d lose packets", lossy)
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d unknown", unknown)
	}
	if silent > 0 {
		text += fmt.Sprintf(", %d nodes do not report all their BGP sessions", silent)
	}
	return text
}

// PlaneOf is a plane of which so many paths were tried.
func PlaneOf(name string, nodes []Node, trials map[Path]Trial) Plane {
	p := Plane{Name: name, Tried: len(trials), Findings: []Finding{}, Trials: []Trial{}}
	failed := map[Path]bool{}
	for path, t := range trials {
		failed[path] = t.Failed
		switch {
		case t.Failed:
			p.Failed++
		case t.Received > 0 && t.Received < t.Sent:
			p.Lossy++
		}
		p.Trials = append(p.Trials, t)
	}
	slices.SortFunc(p.Trials, func(a, b Trial) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	p.Findings = append(p.Findings, judge(name, nodes, failed)...)
	return p
}
