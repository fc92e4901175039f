package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// KindReport distinguishes a Report from other JSON.
const KindReport = "MeshReport"

// Report is the result of a mesh run, in the form of -o json.
type Report struct {
	V       int            `json:"v"`
	Kind    string         `json:"kind"`    // MeshReport
	Version string         `json:"version"` // version of the program that drew the conclusions
	Run     string         `json:"run"`
	Cluster *probe.Cluster `json:"cluster,omitempty"`
	Time    time.Time      `json:"time,omitzero"` // start time, by the client's clock
	Word    string         `json:"verdict"`       // healthy, warnings, incomplete or fault
	Exit    int            `json:"exit"`
	Elapsed time.Duration  `json:"elapsed_ns"`
	Nodes   []Member       `json:"nodes"`
	Planes  []Plane        `json:"planes"`
	Lacks   string         `json:"lacks,omitempty"` // why the run was interrupted; "" = it was not
}

// Member is a node of the mesh.
type Member struct {
	Name     string `json:"name"`
	Zone     string `json:"zone,omitempty"`
	Rack     string `json:"rack,omitempty"`
	Untested string `json:"not_asked,omitempty"` // why no path from this node was tried; "" = paths were tried
}

// Plane is one kind of path between the nodes.
type Plane struct {
	Name     string    `json:"name"` // one of Planes
	Tried    int       `json:"tried"`
	Failed   int       `json:"failed"`
	Lossy    int       `json:"lossy"`              // paths on which only some packets came back
	Unknown  int       `json:"unknown"`            // paths that should have been tried, but have no result
	Held     int       `json:"held"`               // paths to pods that a network policy may block: not counted as failed
	Silent   []string  `json:"silent,omitempty"`   // for bgp: nodes that could not report their sessions, with the reason
	Outside  []string  `json:"outside,omitempty"`  // for bgp: addresses of peers outside the cluster
	Left     string    `json:"left_out,omitempty"` // why the plane has no paths; "" = it has some
	Findings []Finding `json:"findings"`
	Trials   []Trial   `json:"paths"`
	More     int       `json:"more_paths,omitempty"` // number of further paths that -o json omits
}

// maxTrials is the maximum number of a plane's paths in JSON. In a full BGP mesh each node has a session with each
// other node.
const maxTrials = 100_000

// MarshalJSON omits paths above the limit. It omits working paths first, then failed paths.
func (p Plane) MarshalJSON() ([]byte, error) {
	type plain Plane
	if more := len(p.Trials) - maxTrials; more > 0 {
		worst := func(t Trial) int { return slices.Index([]string{"fail", "unknown", "lossy", "ok"}, t.word()) }
		p.Trials = slices.SortedStableFunc(slices.Values(p.Trials), func(a, b Trial) int { return worst(a) - worst(b) })
		p.Trials, p.More = p.Trials[:maxTrials], more
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
	PlanePod  = "pod"  // pings from a node to a pod on the other node
	PlaneTCP  = "tcp"  // connections to the other node's kubelet, and to a pod on that node
	PlaneMTU  = "mtu"  // full-size packets to a pod on the other node
	PlaneBGP  = "bgp"  // a BGP session, as the path's first node reports it
)

// Planes returns all planes in the order of reports.
func Planes() []string { return []string{PlaneNode, PlanePod, PlaneTCP, PlaneMTU, PlaneBGP} }

// Trial is the result of one path.
type Trial struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Sent     int     `json:"sent"`     // packets, or connections that were tried
	Received int     `json:"received"` // packets that came back, or connections that were answered
	RTT      float64 `json:"rtt_ms,omitempty"`
	Failed   bool    `json:"failed"` // nothing came back
	Saw      string  `json:"saw"`
}

// PlaneOf returns a plane with its paths' results and with what the failed paths have in common.
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
