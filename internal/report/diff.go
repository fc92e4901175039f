package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
)

// Change is one difference between two runs.
type Change struct {
	Kind   string       `json:"kind"` // worse, better, appeared, vanished, followup or fact
	Check  string       `json:"check"`
	Target string       `json:"target,omitempty"` // the target's name in the second run, or in the only run that has it
	Pod    string       `json:"pod,omitempty"`    // the workload pod in whose network the check ran
	Was    probe.Status `json:"was,omitempty"`    // "" = the first run has no answer
	Is     probe.Status `json:"is,omitempty"`     // "" = the second run has no answer
	Saw    string       `json:"saw,omitempty"`    // the observation in the second run, or in the only run that has one
	Fact   probe.Fact   `json:"fact,omitempty"`   // in changes of kind fact
	From   any          `json:"from,omitempty"`
	To     any          `json:"to,omitempty"`
}

// The kinds of change, in display order.
const (
	changeWorse    = "worse"
	changeBetter   = "better"
	changeAppeared = "appeared" // answered by the second run only, and not bad
	changeVanished = "vanished" // answered by the first run only
	changeFollowUp = "followup" // a follow-up check that only one run did
	changeFact     = "fact"     // the same status, but a fact differs
)

// KindDiff marks the JSON of a Difference.
const KindDiff = "Diff"

// Difference is the comparison of two runs.
type Difference struct {
	V       int      `json:"v"`
	Kind    string   `json:"kind"`
	A       Side     `json:"a"`
	B       Side     `json:"b"`
	Changes []Change `json:"changes"`
	Same    int      `json:"same"` // answers with the same status

	short bool // answers that the second run should have are missing
}

// Side is one of the two runs.
type Side struct {
	Name    string         `json:"name"` // the file, or the node
	Node    string         `json:"node"`
	Cluster *probe.Cluster `json:"cluster,omitempty"`
	Time    time.Time      `json:"time,omitzero"` // start time, by the client's clock
	Verdict string         `json:"verdict,omitempty"`
	Lacks   string         `json:"lacks,omitempty"` // why the run is incomplete
}

// Worse reports whether any result of the second run is worse.
func (d Difference) Worse() bool { return d.has(changeWorse) }

// Short reports whether the second run has too few answers to be called "no worse": it lacks answers that the first run
// has, was interrupted, or could not run all checks. It does not count different targets on two nodes, or checks that
// both runs lack.
func (d Difference) Short() bool {
	unasked := d.B.Verdict == WordIncomplete && (d.A.Node == d.B.Node || d.A.Verdict != WordIncomplete)
	return d.B.Lacks != "" || unasked || d.short
}

func (d Difference) has(kind string) bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Kind == kind })
}

// Diff compares two runs over one node or two nodes. It pairs answers about the same target. It pairs a check's other
// answers by the kind of target, using the worst answer of each kind, because pods get new names, and two nodes are
// each other's peers.
func Diff(nameA string, a Run, nameB string, b Run) Difference {
	d := Difference{V: probe.Version, Kind: KindDiff, A: side(nameA, a), B: side(nameB, b), Changes: []Change{}}
	left, right := answersIn(a), answersIn(b)
	nodes := namesIn(a, b)
	for _, pass := range []struct {
		group func(probe.Result) string
		facts bool // addresses and devices of two nodes always differ
	}{
		{func(r probe.Result) string { return key(r, r.Target) }, a.Node == b.Node},
		{func(r probe.Result) string { return key(r, kindOf(r.Target, nodes)) }, false},
	} {
		inA, inB := grouped(left, pass.group), grouped(right, pass.group)
		seen := map[string]bool{}
		for _, r := range left {
			k := pass.group(r)
			if len(inB[k]) > 0 && !seen[k] {
				seen[k] = true
				d.add(worst(inA[k]), worst(inB[k]), pass.facts)
			}
		}
		left = slices.DeleteFunc(left, func(r probe.Result) bool { return len(inB[pass.group(r)]) > 0 })
		right = slices.DeleteFunc(right, func(r probe.Result) bool { return len(inA[pass.group(r)]) > 0 })
	}
	onlyA, onlyB := followUps(a, b), followUps(b, a)
	for _, r := range left {
		if slices.Contains(onlyA, r.Check) {
			d.change(changeFollowUp, r.Status, "", r)
			continue
		}
		d.add(&r, nil, false)
		other := func(o probe.Result) bool { return o.Check == r.Check }
		d.short = d.short || a.Node == b.Node || quiet(r.Status) && !slices.ContainsFunc(answersIn(b), other)
	}
	for _, r := range right {
		if slices.Contains(onlyB, r.Check) {
			d.change(changeFollowUp, "", r.Status, r)
			continue
		}
		d.add(nil, &r, false)
	}
	order := []string{changeWorse, changeBetter, changeAppeared, changeVanished, changeFollowUp, changeFact}
	slices.SortStableFunc(d.Changes, func(x, y Change) int {
		return cmp.Compare(slices.Index(order, x.Kind),
			slices.Index(order, y.Kind))
	})
	return d
}

func side(name string, r Run) Side {
	begun := r.begun()
	s := Side{Name: name, Node: r.Node, Cluster: begun.Cluster, Time: begun.Time, Lacks: r.Lacks}
	if r.Verdict != nil {
		s.Verdict = r.Verdict.Word
	}
	return s
}

// answersIn returns the answers about the examined node. It omits skipped checks, and answers about peers, which exist
// only if the node has a failure.
func answersIn(run Run) []probe.Result {
	var out []probe.Result
	for _, ev := range run.Events {
		if ev.Result != nil && ev.Node == run.Node && ev.Result.Status != probe.Skip &&
			ev.Result.Check != probe.CheckPlaced && ev.Method != probe.MethodBaseline {
			out = append(out, *ev.Result)
		}
	}
	return out
}

// followUps returns a run's follow-up checks that the other run did not do.
func followUps(run, other Run) []string {
	var out []string
	for _, ev := range run.Events {
		if ev.Start != nil && ev.Start.FollowUp && ev.Node == run.Node {
			out = append(out, ev.Start.Checks...)
		}
	}
	theirs := answersIn(other)
	return slices.DeleteFunc(out, func(id string) bool {
		return slices.ContainsFunc(theirs, func(r probe.Result) bool { return r.Check == id })
	})
}

// key returns a key for answers to compare. It does not contain the name of the pod in which the check ran, because
// that name changes.
func key(r probe.Result, target string) string {
	return fmt.Sprintf("%s|%s|%v", r.Check, target, r.From != "")
}

// factNode is the node on which a target runs.
const factNode probe.Fact = "node"

// namesIn returns the nodes named in runs, in order.
func namesIn(runs ...Run) []string {
	var out []string
	for _, run := range runs {
		for _, ev := range run.Events {
			out = append(out, ev.Node)
			if ev.Result != nil {
				out = append(out, ev.Result.Facts.Str(factNode))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kindOf returns a target without its names and addresses.
func kindOf(target string, nodes []string) string {
	words := strings.Fields(target)
	for i, w := range words {
		_, notAddr := netip.ParseAddr(w)
		_, notPrefix := netip.ParsePrefix(w)
		_, notPort := netip.ParseAddrPort(w)
		_, node := slices.BinarySearch(nodes, w)
		switch {
		case notAddr == nil || notPrefix == nil || notPort == nil:
			words[i] = "ADDRESS"
		case node:
			words[i] = "NODE"
		case strings.Count(w, "/") == 1 && !strings.HasPrefix(w, "/"):
			words[i] = "POD"
		}
	}
	return strings.Join(words, " ")
}

func grouped(of []probe.Result, by func(probe.Result) string) map[string][]probe.Result {
	out := map[string][]probe.Result{}
	for _, r := range of {
		out[by(r)] = append(out[by(r)], r)
	}
	return out
}

// worst returns the first of the worst answers.
func worst(of []probe.Result) *probe.Result {
	out := of[0]
	for _, r := range of {
		if badness(r.Status) > badness(out.Status) {
			out = r
		}
	}
	return &out
}

// badness returns the rank of a status. ok and info are equal, because neither needs action.
func badness(s probe.Status) int {
	if s == probe.OK {
		s = probe.Info
	}
	return len(probe.Statuses()) - slices.Index(probe.Statuses(), s)
}

// add compares two paired answers; nil = the run has none.
func (d *Difference) add(a, b *probe.Result, facts bool) {
	good := func(r *probe.Result) bool { return badness(r.Status) == badness(probe.OK) }
	switch {
	case a == nil && good(b):
		d.change(changeAppeared, "", b.Status, *b)
	case a == nil:
		d.change(changeWorse, "", b.Status, *b)
	case b == nil:
		d.change(changeVanished, a.Status, "", *a)
	case badness(b.Status) > badness(a.Status):
		d.change(changeWorse, a.Status, b.Status, *b)
	case badness(b.Status) < badness(a.Status):
		d.change(changeBetter, a.Status, b.Status, *b)
	default:
		d.Same++
		if facts {
			d.facts(*a, *b)
		}
	}
}

func (d *Difference) change(kind string, was, is probe.Status, r probe.Result) {
	d.Changes = append(d.Changes, Change{Kind: kind, Check: r.Check, Target: r.Target, Pod: r.From, Was: was, Is: is,
		Saw: r.Saw})
}

// facts compares the facts of two answers with the same status.
func (d *Difference) facts(a, b probe.Result) {
	if a.Cut || b.Cut {
		return
	}
	for _, name := range sortedFacts(a.Facts) {
		was := a.Facts[name]
		is, there := b.Facts[name]
		if there && notable(name, was, is) {
			d.Changes = append(d.Changes, Change{Kind: changeFact, Check: b.Check, Target: b.Target, Pod: b.From, Was: a.Status,
				Is: b.Status, Fact: name, From: was, To: is})
		}
	}
}

func sortedFacts(f probe.Facts) []probe.Fact {
	var out []probe.Fact
	for name := range f {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// The minimum change of a number that is reported. Ages always grow. One slow packet is not significant, but a duration
// that is ten times as long is, if a user would notice it.
const (
	farther = 2
	slower  = 10
	minMs   = 100
)

func notable(name probe.Fact, was, is any) bool {
	a, number := probe.Facts{name: was}.Num(name)
	b, both := probe.Facts{name: is}.Num(name)
	if number && both {
		far := max(math.Abs(a), math.Abs(b)) / max(min(math.Abs(a), math.Abs(b)), 1)
		switch {
		case strings.HasSuffix(string(name), "_s"), strings.HasSuffix(string(name), "_max_ms"), name == "pid":
			return false
		case strings.HasSuffix(string(name), "_ms"):
			return far >= slower && max(a, b) >= minMs
		}
		return far >= farther && math.Abs(a-b) > 1
	}
	switch was.(type) {
	case string, bool:
		return was != is
	}
	return false // for lists and maps, the sentence already shows the differences
}

// maxRows is the maximum number of changes of one kind that a table shows.
const maxRows = 12

// DiffFormats lists the output formats of a Difference.
func DiffFormats() []Format {
	return []Format{{Name: "table", For: "for people"}, {Name: "json", For: "one document"},
		{Name: "yaml", For: "the same"}, {Name: "html", For: "one page"}}
}

// WriteDiff writes a difference in one of DiffFormats.
func WriteDiff(w io.Writer, format string, d Difference) error {
	switch format {
	case "json":
		return WriteJSON(w, "  ", d)
	case "yaml":
		return WriteYAML(w, d)
	case "html":
		return page.Write(w, d.page())
	}
	var b strings.Builder
	d.A.head(&b, "A")
	d.B.head(&b, "B")
	d.rows(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the difference: %w", err)
	}
	return nil
}

// head writes the result of one of the two runs.
func (s Side) head(b *strings.Builder, letter string) {
	text := cmp.Or(s.Verdict, "no verdict") + " on node " + Head(s.Node, s.Cluster, s.Time)
	if s.Lacks != "" {
		text += ", incomplete: " + s.Lacks
	}
	if s.Name != s.Node {
		text += " (" + s.Name + ")"
	}
	fmt.Fprintf(b, "%s  %s\n", letter, printable(text))
}
