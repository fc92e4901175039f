package examine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/kubeletproxy"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Options describe which node to examine, which checks to run, and how.
type Options struct {
	Node    string
	Via     string           // auto, an access method, or a list of access methods to try
	Profile string           // the checks to run if Checks is empty
	Checks  []string         // run only these checks: IDs, prefixes, globs or tags
	Skip    []string         // exclude these checks
	FailOn  string           // fail, or warn: warnings get their own exit code
	Causes  []*diagnose.Rule // an operator's causes, in addition to the program's own

	Image      string
	PullSecret string
	Privileged bool
	SSH        string // [USER@]HOST with {node} and {ip}; "" = the node's InternalIP
	SSHConfig  string
	Reason     string // why the user runs this, for auditors

	Timeout      time.Duration // time limit for the whole run
	StartTimeout time.Duration // for a probe to start; 0 = depends on method and node
	CheckTimeout time.Duration // for each check; 0 = the check's default
	Baselines    int           // number of healthy nodes to compare with
	NoFollowUp   bool          // skip follow-up checks
	OnlyNamed    bool          // use baseline nodes only if Checks names their checks

	InSession bool // the probe survives a broken connection
	RootShell bool // the probe starts a root shell, and does not answer checks
	ForTool   bool // the probe is for tool calls, and does not answer checks
}

// Special values of Options.
const (
	FailOnFail = "fail"
	FailOnWarn = "warn"
)

// Deadline returns a context that ends with the run's timeout.
func (o Options) Deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.Timeout, TimeoutError(o.Timeout))
}

// TimeoutError reports that the whole run timed out.
type TimeoutError time.Duration

func (e TimeoutError) Error() string { return fmt.Sprintf("--timeout %v is over", time.Duration(e)) }

// Sentence marks the error as text for users (apierror.Sentence).
func (e TimeoutError) Sentence() {}

// Complete fills in the node's name if the access method can determine it, and validates all options.
func (o *Options) Complete() error {
	if o.Node == "" && o.access().Here() {
		var err error
		if o.Node, err = os.Hostname(); err != nil {
			return fmt.Errorf("reading this host's name: %w", err)
		}
	}
	if o.Node == "" {
		return ui.BadUsage("no node given: add NODE or --node NODE ('kubectl get nodes' lists nodes)")
	}
	return o.Validate()
}

// Validate checks the options against each other before the run begins. It does not need a node. Every error is a
// ui.UsageError.
func (o Options) Validate() error {
	if err := validateVia(o.Via); err != nil {
		return err
	}
	if err := o.validateSSH(); err != nil {
		return err
	}
	if err := CheckImage("image", o.Image); err != nil {
		return err
	}
	switch {
	case o.FailOn != FailOnFail && o.FailOn != FailOnWarn:
		return ui.BadUsage("unknown level %q: --fail-on takes fail or warn", o.FailOn)
	case o.Timeout < time.Second:
		return ui.BadUsage("--timeout must be a second or more")
	case o.CheckTimeout < 0 || o.StartTimeout < 0:
		return ui.BadUsage("--check-timeout and --start-timeout must not be negative")
	case !slices.Contains(probe.Profiles(), probe.Profile(o.Profile)):
		return ui.BadUsage("unknown profile %q: --profile takes %s", o.Profile, strings.Join(ProfileNames(), ", "))
	case o.Baselines < 0 || o.access().FromOutside() && o.Baselines == 0:
		return ui.BadUsage("--baselines must not be negative, nor 0 with --via outside")
	case o.Baselines >= MaxWithoutConsent:
		return ui.BadUsage("--baselines must be less than %d", MaxWithoutConsent)
	}
	_, err := o.pick()
	return err
}

// validateSSH rejects a destination that ssh rejects, and a configuration file that does not exist.
func (o Options) validateSSH() error {
	to := strings.NewReplacer("{node}", "", "{ip}", "").Replace(o.SSH)
	if strings.HasPrefix(to, "-") || strings.HasSuffix(o.SSH, "@") || strings.ContainsAny(to, " \t\n'`\";&<>|(){}") {
		return ui.BadUsage("--ssh %q is not a valid destination: use [USER@]HOST, with {node} or {ip} for the node's own", o.SSH)
	}
	if o.SSHConfig == "" || o.SSHConfig == "none" { // "none" is ssh's word for no file
		return nil
	}
	file, err := os.Stat(o.SSHConfig)
	switch {
	case err != nil:
		return ui.BadUsage("--ssh-config: %w", err)
	case file.IsDir():
		return ui.BadUsage("--ssh-config: %s is a folder", o.SSHConfig)
	}
	return nil
}

// CheckImage validates a flag's image by the kubelet's rules.
func CheckImage(flag, image string) error {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return ui.BadUsage("--%s %q: invalid image name", flag, image)
	}
	return nil
}

// ProfileNames lists the values of --profile.
func ProfileNames() []string {
	var out []string
	for _, p := range probe.Profiles() {
		out = append(out, string(p))
	}
	return out
}

// pick returns the checks that Checks, Skip and Profile together select.
func (o Options) pick() ([]*probe.Check, error) {
	picked, err := Select(o.Checks, o.Skip, o.Profile)
	if err != nil {
		return nil, ui.BadUsage("%w; 'calico-probe checks' lists checks", err)
	}
	if len(picked) == 0 {
		return nil, ui.BadUsage("--checks and --skip leave no check to run")
	}
	switch access := o.access(); {
	case len(o.Checks) > 0:
	case access.FromOutside():
		picked = slices.DeleteFunc(picked, (*probe.Check).OnNode)
		picked = append(picked, bgp.BGPSession, link.NeighbourReach)
	case access.Covers(injector.TheKubelet):
		picked = slices.DeleteFunc(picked, func(c *probe.Check) bool { return c.OnNode() && !o.canAsk(c) })
	}
	return picked, o.askable(picked)
}

// Places reports whether the access method creates something on a node.
func (o Options) Places() bool { return o.access().Creates() }

// access returns the access methods that Via selects.
func (o Options) access() injector.Access { return injector.AccessOf(o.Via) }

// askable rejects named checks that the chosen access method cannot run. Otherwise the report would look good although
// these checks are missing.
func (o Options) askable(picked []*probe.Check) error {
	asksLess := o.access().Alone()
	var cannot []string
	for _, c := range picked {
		if !o.canAsk(c) {
			cannot = append(cannot, c.ID)
		}
	}
	switch {
	case len(cannot) == len(picked) && !asksLess:
		return ui.BadUsage("%s is answered by every run that places a probe on the node: add other checks", strings.Join(cannot, ", "))
	case len(o.Checks) > 0 && len(cannot) > 0 && asksLess:
		return ui.BadUsage("--via %s cannot run %s: use another access method, or leave out these checks", o.Via, strings.Join(cannot, ", "))
	}
	return nil
}

// canAsk reports whether the access method can run a check.
func (o Options) canAsk(c *probe.Check) bool { return o.access().Covers(answerer(c)) }

// answerer returns the scope that can answer a check; 0 = only the client itself, in every run.
func answerer(c *probe.Check) injector.Scope {
	switch {
	case c.From == probe.FromAPI:
		return injector.TheAPI
	case !c.OnNode():
		return 0
	case c.Is(link.NeighbourReach):
		return injector.OtherNodes
	case c.Is(bgp.BGPSession):
		return injector.TheNode | injector.OtherNodes
	case kubeletproxy.KubeletAnswers(c):
		return injector.TheNode | injector.TheKubelet
	}
	return injector.TheNode
}

// MaxWithoutConsent is the largest number of nodes on which the program places probes without the user's consent.
const MaxWithoutConsent = 20
