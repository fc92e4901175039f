package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is the answer to a check. The zero value is not a status: the Runner turns a result without a status into
// Unknown.
type Status string

// All possible statuses.
const (
	OK      Status = "ok"      // checked, and good
	Info    Status = "info"    // checked; worth knowing, but no action needed
	Warn    Status = "warn"    // checked; causes minor problems, or will cause them
	Fail    Status = "fail"    // checked, and bad
	Skip    Status = "skip"    // not checked because a prerequisite is missing (named in Saw)
	Unknown Status = "unknown" // the check could not run, or did not answer: counts neither as good nor as bad
)

// Statuses lists every status, with the worst first. Summaries use this order.
func Statuses() []Status { return []Status{Fail, Unknown, Warn, Skip, Info, OK} }

// A Fact is the name of one typed value in a result, in snake_case. Each check defines its facts as constants
// beside the check.
type Fact string

// FactReason is one machine-readable word that gives the reason for a result. Rules read it. For network errors,
// Reason returns it.
const FactReason Fact = "reason"

// FactNode is the target's node. FactNodeState is the node's state in the API if the node is not Ready: NodeNotReady
// or NodeSilent.
const (
	FactNode      Fact = "node"
	FactNodeState Fact = "node_state"
)

// FactPolicy names the network policy that may block the target.
const FactPolicy Fact = "policy"

// FactDenied is the direction in which that policy certainly denies every packet: ingress or egress.
const FactDenied Fact = "denied"

// FactNamespace is the namespace of a pod that could not be created.
const FactNamespace Fact = "namespace"

// FactImageID is the digest to which the node resolved the probe's image, if the kubelet reports it.
const FactImageID Fact = "image_id"

// IDs of the results that the client adds to a probe's results. Rules read them.
const (
	CheckPlaced   = "probe-placed"   // could the client place a probe on the node?
	CheckAnswered = "probe-answered" // did the probe's answer arrive complete?
)

// Facts holds the typed values behind a sentence: strings, booleans, numbers, and lists or maps of these.
// After transfer, every number is a float64, so read numbers through the getters.
type Facts map[Fact]any

// Str returns the string under key, or "".
func (f Facts) Str(key Fact) string { s, _ := f[key].(string); return s }

// Num returns the number under key, and whether it exists.
func (f Facts) Num(key Fact) (float64, bool) {
	switch v := f[key].(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

// Result is a check's answer about one target.
type Result struct {
	Check  string `json:"check"`            // the check's ID, set by the Runner
	Target string `json:"target,omitempty"` // what was checked: a peer, socket or pod; empty = the node itself
	// the workload pod in whose network namespace the check ran; empty = the node
	From    string        `json:"from,omitempty"`
	Status  Status        `json:"status"`
	Saw     string        `json:"saw"`             // one sentence: what the check observed, without advice
	Facts   Facts         `json:"facts,omitempty"` // typed values for programs and rules
	Lines   []string      `json:"lines,omitempty"` // raw evidence
	Cut     bool          `json:"cut,omitempty"`   // evidence or facts were shortened to keep the line within MaxLine
	Elapsed time.Duration `json:"elapsed_ns"`      // nanoseconds between the start of the check and this result
}

// Found creates a result from an observation. The sentence is formatted with fmt.Sprintf.
func Found(s Status, format string, args ...any) Result {
	return Result{Status: s, Saw: fmt.Sprintf(format, args...)}
}

// Failed creates an Unknown result for a check that could not run.
func Failed(err error) Result { return Result{Status: Unknown, Saw: err.Error()} }

// On sets the target and returns the result.
func (r Result) On(target string) Result { r.Target = target; return r }

// With adds a fact and returns the result.
func (r Result) With(key Fact, value any) Result {
	f := make(Facts, len(r.Facts)+1)
	maps.Copy(f, r.Facts)
	f[key] = value
	r.Facts = f
	return r
}

// Under adjusts a result to the network policies of t. It considers packets to the target (DeniesIngress), or packets
// from the sending pod (DeniesEgress). A fail becomes a warning if a policy might block the packets, or if the pod's
// owner might have changed the pod's network. It becomes unknown if the policies could not be read. Unknown becomes
// skip if a policy certainly denies every packet.
func (r Result) Under(t Target, direction string) Result {
	name, unread := t.Attrs[AttrPolicy], t.Attrs[AttrUnread]
	denied := slices.Contains(strings.Split(t.Attrs[AttrDenies], ","), direction)
	switch {
	case denied && r.Status == Unknown:
		r.Status = Skip
		r.Saw = fmt.Sprintf("%s denies %s of %s: %s", name, direction, t.Name, r.Saw)
		return r.With(FactPolicy, name)
	case denied && r.Status == Fail:
		r.Status = Warn
		r.Saw += fmt.Sprintf("; %s denies all %s of %s", name, direction, t.Name)
		return r.With(FactPolicy, name).With(FactDenied, direction)
	case r.Status != Fail:
	case t.Attrs[AttrOwnNetwork] != "":
		r.Status = Warn
		r.Saw += fmt.Sprintf("; the owner of %s may have changed its network (%s)", t.Name, t.Attrs[AttrOwnNetwork])
	case name != "":
		r.Status = Warn
		r.Saw += fmt.Sprintf("; %s applies to %s and may forbid it", name, t.Name)
		r = r.With(FactPolicy, name)
	case unread != "":
		r.Status = Unknown
		r.Saw += fmt.Sprintf("; unknown whether a policy forbids it: %s", unread)
	}
	return r
}

// Because adds lines of evidence and returns the result.
func (r Result) Because(lines ...string) Result {
	r.Lines = append(slices.Clone(r.Lines), lines...)
	return r
}

// Counts holds the number of results by status.
type Counts map[Status]int

// Total returns the number of results counted.
func (c Counts) Total() int {
	n := 0
	for _, v := range c {
		n += v
	}
	return n
}
