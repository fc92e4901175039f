package examine

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	runtimefacts "github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/subject/suite/ask"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "write docs/kinds.md and the golden screens")

// outcome is the result of a run before a probe is on the node, with the checks that the plan leaves to the probe.
type outcome struct {
	seen    diagnose.Findings
	api     []probe.Result
	skips   []probe.Result // node checks that the plan answers
	targets []probe.Target
	gaps    map[string]string
	linux   bool
}

// lookAt reads a world as a run does.
func lookAt(t *testing.T, w *world, node, namespace string) outcome {
	t.Helper()
	node = cmp.Or(node, w.nodes[0].Name)
	snap := must.Get(w.server().client(t, namespace).Read(t.Context(), node))(t)
	out := outcome{seen: diagnose.Findings{Node: node}, linux: cluster.NoProbeOn(snap.Node) == ""}
	asks := suiteapi.Checks(snap)
	gather := func(suite []*probe.Check, plan probe.Plan) (results []probe.Result) {
		plan.Checks = CheckIDs(suite)
		r := probe.Runner{Suite: suite, Host: &probe.Host{Root: t.TempDir(), Proc: t.TempDir()}}
		for _, c := range suite { // without the checks that they need
			c.Needs = nil
		}
		r.Run(t.Context(), plan, func(ev probe.Event) {
			if ev.Result != nil {
				ev.Node = node
				out.seen.Add(ev)
				results = append(results, *ev.Result)
			}
		})
		return results
	}
	out.api = gather(asks, probe.Plan{Node: node})
	out.targets, out.gaps = cluster.Targets(snap)
	if out.linux {
		out.skips = gather(answeredByPlan(out.targets), probe.Plan{Node: node, Targets: out.targets, Gaps: out.gaps})
	}
	order := func(suite []*probe.Check, results []probe.Result) {
		slices.SortStableFunc(results, func(a, b probe.Result) int {
			at := func(r probe.Result) int { return slices.Index(CheckIDs(suite), r.Check) }
			return cmp.Compare(at(a), at(b))
		})
	}
	order(asks, out.api)
	order(ask.All(), out.skips)
	return out
}

// wants are the kinds of target without which a check on the node has nobody to ask.
var wants = map[string][]string{
	link.NodePing.ID: {probe.KindNode, probe.KindPeer}, pod.PodPing.ID: {probe.KindPod}, pod.PodTCP.ID: {probe.KindPod},
	pod.PodMTU.ID: {probe.KindPod}, route.RouteBlocks.ID: {probe.KindBlock}, route.RoutePods.ID: {probe.KindLocal},
	overlay.OverlayTunnels.ID: {probe.KindPool}, overlay.IPSetHosts.ID: {probe.KindPool},
	datastore.TyphaReach.ID:     {probe.KindTypha},
	service.ServiceClusterIP.ID: {probe.KindService}, service.ServiceNodePort.ID: {probe.KindNodePort},
	dns.DNSCluster.ID: {probe.KindDNS}, bgp.BGPExpected.ID: {probe.KindSession},
	cni.CNIServer.ID: {probe.KindDatastore}, datastore.DatastoreLatency.ID: {probe.KindDatastore},
	link.IPAutodetect.ID: {probe.KindCalico},
	logs.CalicoLog.ID:    {probe.KindCalico}, start.StartupBudget.ID: {probe.KindCalico},
}

// answeredByPlan are the checks on the node that skip by what the plan says, whatever is on the node.
func answeredByPlan(targets []probe.Target) []*probe.Check {
	first := func(kind string) probe.Target {
		for _, t := range targets {
			if t.Kind == kind {
				return t
			}
		}
		return probe.Target{}
	}
	tunnelled := slices.ContainsFunc(targets, func(t probe.Target) bool {
		return t.Kind == probe.KindPool && (t.Attrs[probe.AttrIPIP] != "Never" || t.Attrs[probe.AttrVXLAN] != "Never")
	})
	encrypts := first(probe.KindFelix).Attrs["wireguardEnabled"] == "true"
	dockers := strings.HasPrefix(first(probe.KindRuntime).Name, "docker")
	by := map[string]bool{
		firewall.NodeFirewall.ID:         first(probe.KindFelix).Attrs["bpfEnabled"] == "true",
		runtimefacts.ContainerdHealth.ID: !strings.HasPrefix(first(probe.KindRuntime).Name, "containerd") && !dockers,
		overlay.OverlayTunnels.ID:        !tunnelled && !encrypts, overlay.IPSetHosts.ID: !tunnelled,
		link.IPAutodetect.ID: first(probe.KindBackend).Name == "none",
	}
	for _, c := range []*probe.Check{bgp.BirdSocket, bgp.BirdConfig, bgp.BGPSession,
		bgp.BGPExpected, bgp.BGPPort} {
		by[c.ID] = first(probe.KindBackend).Name != "bird"
	}
	var out []*probe.Check
	for _, c := range ask.All() {
		lacks := wants[c.ID] != nil && !slices.ContainsFunc(targets,
			func(t probe.Target) bool { return slices.Contains(wants[c.ID], t.Kind) })
		if lacks || by[c.ID] {
			one := *c
			one.Inside = false
			out = append(out, &one)
		}
	}
	return out
}

// TestAnsweredByPlan guards against a table that matches no check of the suite: of a plan without targets, each check
// in wants must skip.
func TestAnsweredByPlan(t *testing.T) {
	var got []string
	for _, c := range answeredByPlan(nil) {
		got = append(got, c.ID)
	}
	for id := range wants {
		if !slices.Contains(got, id) {
			t.Errorf("%s is not answered by a plan without targets, only %v are", id, got)
		}
	}
}

// healthy fails the test where something of a healthy cluster is called bad, unknown, or a cause.
func (o outcome) healthy(t *testing.T, mild ...string) {
	t.Helper()
	for _, r := range o.api {
		odd := r.Status == probe.Warn || r.Status == probe.Unknown
		if r.Status == probe.Fail || odd && !slices.Contains(mild, r.Check) {
			t.Errorf("%s %s %s: %s", r.Check, r.Target, r.Status, r.Saw)
		}
	}
	for _, r := range o.skips {
		if r.Status != probe.Skip {
			t.Errorf("%s %s is not skipped but %s: %s", r.Check, r.Target, r.Status, r.Saw)
		}
	}
	for kind, why := range o.gaps {
		if why != probe.GapEtcd && why != probe.GapNotCalicos {
			t.Errorf("targets of kind %s are not known: %s", kind, why)
		}
	}
	for _, c := range diagnose.Explain(o.seen, cause.All()).Causes {
		t.Errorf("cause %s (%s): %s", c.ID, c.Confidence, c.Says)
	}
}

// TestInstallations requires no false result for healthy clusters of any kind.
func TestInstallations(t *testing.T) {
	onLinux(t)
	for _, k := range installations() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			lookAt(t, k.build(), k.node, k.namespace).healthy(t)
		})
	}
}

// onLinux skips a test of checks that ask Linux's kernel.
func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the checks on the node are for Linux")
	}
}

// TestDocsKinds requires that docs/kinds.md matches the checks' results for each kind.
func TestDocsKinds(t *testing.T) {
	onLinux(t)
	var b bytes.Buffer
	b.WriteString(kindsHead)
	for _, k := range installations() {
		o := lookAt(t, k.build(), k.node, k.namespace)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", k.name, k.says)
		o.describe(&b)
	}
	b.WriteString(busyHead)
	for _, c := range busyClusters() {
		fmt.Fprintf(&b, "- %s\n", c.says)
	}
	const file = "../../docs/kinds.md"
	if *update {
		must.Do(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	is, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(is, b.Bytes()) {
		t.Errorf("docs/kinds.md is not what the checks say (%v): 'make docs' writes it", err)
	}
}

const kindsHead = `# Kinds of installation

Calico is installed in many ways, and not every check applies to each. ` + "`make docs`" + ` writes this page from a
test. The test reads a healthy cluster of each kind, requires no failed check and no cause, and lists the skipped
checks with their reasons. All other checks run. In each run, ` + "`calico-kind`" + ` reports what no check covers.
`

const busyHead = `
## Busy but healthy clusters

The following situations are not faults of the tested node. The same test requires that no report names them:

`

// describe writes what is said of a kind.
func (o outcome) describe(b *bytes.Buffer) {
	for _, r := range o.api {
		if r.Check == facts.CheckCalicoKind && r.Status == probe.OK {
			fmt.Fprintf(b, "Reported as: %s.\n\n", r.Saw)
		}
	}
	for _, r := range o.api {
		if r.Check == facts.CheckCalicoKind && r.Status == probe.Info {
			fmt.Fprintf(b, "- **%s**, %s.\n", r.Target, r.Saw)
		}
	}
	why := map[string][]string{}
	var order []string
	for _, r := range slices.Concat(o.api, o.skips) {
		if r.Status != probe.Skip {
			continue
		}
		if why[r.Saw] == nil {
			order = append(order, r.Saw)
		}
		if id := "`" + r.Check + "`"; !slices.Contains(why[r.Saw], id) {
			why[r.Saw] = append(why[r.Saw], id)
		}
	}
	for _, saw := range order {
		fmt.Fprintf(b, "- skipped: %s (%s).\n", strings.Join(why[saw], ", "), saw)
	}
	if !o.linux {
		b.WriteString("- No probe runs on this node: all checks on the node are skipped.\n")
	}
}

// TestPlansOfKinds has what the plan is to ask in some kinds, beside what it leaves out.
func TestPlansOfKinds(t *testing.T) {
	want := map[string][]string{ // kind of target, and what it is called, or where it is
		"Route reflectors":    {"session cedar 10.20.0.13"},
		"BGP with switches":   {"session rack 10.20.0.1"},
		"etcd datastore":      {"datastore etcd 10.20.0.11"},
		"eBPF, no kube-proxy": {"datastore configured api.cluster.example", "typha endpoint 10.20.0.12"},
		"IPv6 only":           {"session birch fd20::12", "node birch fd20::12", "pod shop/web-birch fd20:244:1::5", "self alder fd20::11"},
		"Native v3 resources": {"pool 10.244.0.0/16", "block 10.244.1.0/26 10.20.0.12"},
		"WireGuard":           {"tunnel birch 10.244.1.60"},
	}
	for _, k := range installations() {
		if want[k.name] == nil {
			continue
		}
		var has []string
		for _, target := range lookAt(t, k.build(), k.node, k.namespace).targets {
			has = append(has, strings.TrimSpace(target.Kind+" "+target.String()+" "+target.Host))
		}
		for _, one := range want[k.name] {
			if !slices.Contains(has, one) {
				t.Errorf("%s: nothing asks about %s, of\n%s", k.name, one, strings.Join(has, "\n"))
			}
		}
		delete(want, k.name)
	}
	if len(want) > 0 {
		t.Errorf("no such kinds: %v", want)
	}
}
