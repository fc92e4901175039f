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
	FromAPI  Vantage = "api"  // through the Kubernetes API, nothing injected

	FromClient Vantage = "client" // in the client, about the access method
)

// Profile is the set of checks that run. Each profile contains the previous profile.
type Profile string

// The profiles.
const (
	Quick    Profile = "quick"    // answers within a second or two, with the fewest rights on the node
	Standard Profile = "standard" // what a run checks by default
	Deep     Profile = "deep"     // also slow checks, and checks with a second probe on another node
)

// Profiles lists the profiles, the smallest first.
func Profiles() []Profile { return []Profile{Quick, Standard, Deep} }

// AccessPods is the access of a check that runs in a pod's network namespace. Finding the namespace needs SYS_PTRACE,
// entering it SYS_ADMIN.
const AccessPods = "pods' network namespaces"

// capabilities are the capabilities that some kinds of access need in addition to root (capabilities(7)).
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

// DefaultLimit bounds a check without its own limit.
const DefaultLimit = 5 * time.Second

// A Check is one question. It is a value: its function answers, and the Runner handles deadline, order, panics and
// timing.
type Check struct {
	ID   string  // never changes: flag value, JSON key, doc anchor; "felix-live"
	From Vantage // where it runs
	// runs on the node, and again in the network namespaces of up to two workload pods
	Inside bool
	In     Profile       // the smallest profile with this check; "" = Quick
	Tags   []string      // its families: "bgp", "runtime", ...; none for a check with a probe on another node
	Limit  time.Duration // 0 = DefaultLimit
	Needs  []string      // IDs of checks whose answers it needs; otherwise skipped (FromPod: its part in pods)
	Access []string      // what the check accesses on the node, for the person who approves privileges
	Run    func(context.Context, *Pass)
}

// Answers are checks with the functions that answer them.
type Answers []*Check

// To adds a check with the function that answers it.
func (a *Answers) To(c *Check, run func(context.Context, *Pass)) *Check {
	out := *c
	out.Run = run
	*a = append(*a, &out)
	return &out
}

// Is reports whether two values are the same check: Answers holds a second value of each check.
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

// Pass is what a running check may use.
type Pass struct {
	Host    *Host
	Targets []Target
	Gaps    map[string]string // of the plan
	Now     time.Time         // of the plan: the API server's clock
	From    string            // of the plan: the pod that it runs in, "" = the node
	Brief   bool              // of the plan
	// Report accepts each result as soon as it is known. It is safe for concurrent use. After the deadline it drops
	// results.
	Report func(Result)
}

// Of returns the targets of the given kinds, in the plan's order.
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

// Validate reports everything wrong with a suite: invalid or repeated IDs, and needs that are cyclic or
// missing in the suite.
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

// cyclic reports whether a check's needs lead back to a check above it.
func cyclic(id string, byID map[string]*Check, above []string) bool {
	if slices.Contains(above, id) {
		return true
	}
	c, above := byID[id], append(above, id)
	return c != nil && slices.ContainsFunc(c.Needs, func(need string) bool { return cyclic(need, byID, above) })
}

// Selectors returns the words that select checks of a suite: their IDs, then tags.
func Selectors(suite []*Check) []string {
	var out, tags []string
	for _, c := range suite {
		out = append(out, c.ID)
		tags = append(tags, c.Tags...)
	}
	slices.Sort(tags)
	return append(out, slices.Compact(tags)...)
}

// Select returns the checks of suite, in its order, that match a wanted pattern (none = all) and no unwanted one. A
// pattern is an ID, the beginning of an ID ("node-"), a glob over IDs ("*-health") or a tag. For a pattern without a
// match, the error names the nearest ID.
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

// Within returns the checks of a suite that belong to a profile, in suite order.
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
