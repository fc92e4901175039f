package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/suggest"
)

// Vantage is where a check runs.
type Vantage string

// The places where a check can run.
const (
	FromNode Vantage = "node" // on the node itself, in its network namespace
	FromPod  Vantage = "pod"  // inside the network namespace of a workload pod on the node
	FromAPI  Vantage = "api"  // through the Kubernetes API, without a probe on the node

	FromClient Vantage = "client" // in the client; these checks are about the access method
)

// Profile is the set of checks that run. Each profile includes all checks of the profile before it.
type Profile string

// The profiles.
const (
	Quick    Profile = "quick"    // answers within a second or two, and needs the fewest rights on the node
	Standard Profile = "standard" // what a run checks by default
	Deep     Profile = "deep"     // also includes slow checks, and checks that need a second probe on another node
)

// Profiles lists the profiles, with the smallest first.
func Profiles() []Profile { return []Profile{Quick, Standard, Deep} }

// AccessPods is the access that a check needs to run in a pod's network namespace. SYS_PTRACE is needed to find the
// namespace, and SYS_ADMIN to enter it.
const AccessPods = "pods' network namespaces"

// capabilities maps a kind of access to the capabilities that it needs in addition to root (capabilities(7)).
var capabilities = map[string][]string{
	"NET_RAW": {"NET_RAW"}, "NET_ADMIN": {"NET_ADMIN"}, "SYS_PTRACE": {"SYS_PTRACE"}, "SYS_ADMIN": {"SYS_ADMIN"},
	AccessPods: {"SYS_ADMIN", "SYS_PTRACE"},
}

// Capabilities returns the sorted Linux capabilities, without CAP_, that these checks need in addition to root.
func Capabilities(suite []*Check) []string {
	var out []string
	for _, c := range suite {
		for _, access := range c.Access {
			out = append(out, capabilities[access]...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DefaultLimit is the time limit for a check that does not set its own limit.
const DefaultLimit = 5 * time.Second

// A Check asks one question. A Check is a plain value: its function answers the question, and the Runner handles
// the deadline, the order, panics and timing.
type Check struct {
	ID   string  // never changes: it is the flag value, JSON key and doc anchor; "felix-live"
	From Vantage // where it runs
	// also runs in the network namespaces of up to two workload pods
	Inside bool
	In     Profile       // the smallest profile that includes this check; "" = Quick
	Tags   []string      // its families: "bgp", "runtime", ...; none if the check needs a probe on another node
	Limit  time.Duration // 0 = DefaultLimit
	Needs  []string      // IDs of checks that must answer first, or this check is skipped (FromPod: only in pods)
	Access []string      // what the check accesses on the node, for the person who approves its privileges
	Run    func(context.Context, *Pass)
}

// Answers holds checks and the functions that answer them.
type Answers []*Check

// To adds a check and the function that answers it.
func (a *Answers) To(c *Check, run func(context.Context, *Pass)) *Check {
	out := *c
	out.Run = run
	*a = append(*a, &out)
	return &out
}

// Is reports whether two values are the same check, because Answers holds a second value for each check.
func (c *Check) Is(other *Check) bool { return c.ID == other.ID }

// Deadline returns the check's time limit.
func (c *Check) Deadline() time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return DefaultLimit
}

// OnNode reports whether a probe on the node runs the check.
func (c *Check) OnNode() bool { return c.From == FromNode || c.From == FromPod }

// EntersPods reports whether the check runs inside pods' network namespaces.
func (c *Check) EntersPods() bool { return c.Inside || c.From == FromPod }

// Pass holds everything that a running check may use.
type Pass struct {
	Host    *Host
	Targets []Target
	Gaps    map[string]string // from the plan
	Now     time.Time         // from the plan: the API server's clock
	From    string            // from the plan: the pod in which the check runs, "" = the node
	Brief   bool              // from the plan
	// Report accepts each result as soon as the check has it. It is safe for concurrent use. After the deadline, it
	// drops results.
	Report func(Result)
}

// Of returns the targets of the given kinds, in the order of the plan.
func (p *Pass) Of(kinds ...string) []Target {
	var out []Target
	for _, t := range p.Targets {
		if slices.Contains(kinds, t.Kind) {
			out = append(out, t)
		}
	}
	return out
}

// Once wraps a function that returns one result about the node itself.
func Once(f func(context.Context, *Host) Result) func(context.Context, *Pass) {
	return func(ctx context.Context, p *Pass) { p.Report(f(ctx, p.Host)) }
}

var idForm = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)

// Validate reports every error in a suite: invalid or repeated IDs, and needs that are cyclic or not in the suite.
func Validate(suite []*Check) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen, byID := map[string]bool{}, map[string]*Check{}
	for _, c := range suite {
		byID[c.ID] = c
	}
	for _, c := range suite {
		switch {
		case !idForm.MatchString(c.ID):
			bad("check ID %q is not kebab-case of two words or more", c.ID)
		case seen[c.ID]:
			bad("check ID %q is used twice", c.ID)
		}
		seen[c.ID] = true
		if c.Run == nil && c.From != FromClient || c.From == "" {
			bad("check %s lacks a function or a vantage", c.ID)
		}
		if c.EntersPods() != slices.Contains(c.Access, AccessPods) {
			bad("check %s runs inside pods and does not list that in its access, or the reverse", c.ID)
		}
		if c.In != "" && !slices.Contains(Profiles(), c.In) {
			bad("check %s is in the unknown profile %q", c.ID, c.In)
		}
		for _, id := range c.Needs {
			if byID[id] == nil {
				bad("check %s needs %q, which is not in the suite", c.ID, id)
			}
		}
		if cyclic(c.ID, byID, nil) {
			bad("check %s needs itself", c.ID)
		}
	}
	return errors.Join(errs...)
}

// cyclic reports whether a check's needs lead back to a check that is already on the path.
func cyclic(id string, byID map[string]*Check, above []string) bool {
	if slices.Contains(above, id) {
		return true
	}
	c, above := byID[id], append(above, id)
	return c != nil && slices.ContainsFunc(c.Needs, func(need string) bool { return cyclic(need, byID, above) })
}

// Selectors returns the words that select checks of a suite: first the IDs, then the tags.
func Selectors(suite []*Check) []string {
	var out, tags []string
	for _, c := range suite {
		out = append(out, c.ID)
		tags = append(tags, c.Tags...)
	}
	slices.Sort(tags)
	return append(out, slices.Compact(tags)...)
}

// Select returns the checks that match a wanted pattern (none = all) but no unwanted pattern. It keeps the order of
// the suite. A pattern is an ID, the beginning of an ID ("node-"), a glob over IDs ("*-health") or a tag. If a
// pattern has no match, the error names the most similar ID.
func Select(suite []*Check, want, without []string) ([]*Check, error) {
	for _, p := range slices.Concat(want, without) {
		if !slices.ContainsFunc(suite, func(c *Check) bool { return c.matches(p) }) {
			return nil, fmt.Errorf("unknown check %q%s", p, suggest.DidYouMean(p, Selectors(suite)))
		}
	}
	var out []*Check
	for _, c := range suite {
		is := func(p string) bool { return c.matches(p) }
		if (len(want) == 0 || slices.ContainsFunc(want, is)) && !slices.ContainsFunc(without, is) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Within returns the checks of a suite that belong to a profile, in the order of the suite.
func Within(suite []*Check, p Profile) []*Check {
	upTo := slices.Index(Profiles(), p)
	var out []*Check
	for _, c := range suite {
		if slices.Index(Profiles(), cmp.Or(c.In, Quick)) <= upTo {
			out = append(out, c)
		}
	}
	return out
}

func (c *Check) matches(pattern string) bool {
	if slices.Contains(c.Tags, pattern) || pattern != "" && strings.HasPrefix(c.ID, pattern) {
		return true
	}
	ok, err := path.Match(pattern, c.ID)
	return ok && err == nil
}
