package cause

import (
	"fmt"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// dying are the deaths of packets on node-b to some targets, at a place each.
func dying(places map[string]string, targets ...string) diagnose.Findings {
	f := diagnose.Findings{Node: "node-b"}
	for _, target := range targets {
		r := probe.Found(probe.Fail, "40 of 40 died").On(target).With(firewall.FactPlace, places[target]).
			With(firewall.FactPlaceKind, firewall.PlaceOther).With(probe.FactPlaceIn, probe.InNode).With(probe.FactFamily,
			4)
		r.Check = firewall.PacketDrops.ID
		f.Add(probe.Event{Type: probe.EventResult, Node: "node-b", Method: "pod", Result: &r})
	}
	return f
}

// TestOneCause wants one fault told once, with its targets named or counted, and two rules' faults told apart.
func TestOneCause(t *testing.T) {
	t.Parallel()
	const node, pod = "node-a 10.0.0.1", "kube-system/coredns-1 10.1.0.9"
	for name, c := range map[string]struct {
		f           diagnose.Findings
		about, says string
	}{
		"at two places": {dying(map[string]string{node: "the queue of eth0", pod: "tc of eth0"}, node, pod),
			node + " and " + pod, "tc of eth0"},
		"at one place": {dying(map[string]string{node: "tc of eth0", pod: "tc of eth0"}, node, pod), node, "tc of eth0"},
	} {
		d := diagnose.Explain(c.f, diagnose.Suite{Rules: []*diagnose.Rule{All().Rule("dropped-here")}})
		if len(d.Causes) != 1 || d.Causes[0].About != c.about || !strings.Contains(d.Causes[0].Says, c.says) ||
			len(d.Unexplained) > 0 || len(d.Causes[0].For) != 2 {
			t.Errorf("%s: %+v, unexplained %v", name, d.Causes, d.Unexplained)
		}
	}
	var targets []string
	places := map[string]string{}
	for i := range 6 {
		target := fmt.Sprintf("node-%d 10.0.0.%d", i, i)
		targets, places[target] = append(targets, target), "to "+target
	}
	d := diagnose.Explain(dying(places, targets...), diagnose.Suite{Rules: []*diagnose.Rule{All().Rule("dropped-here")}})
	if len(d.Causes) != 1 || d.Causes[0].About != "node-0 10.0.0.0 and 5 more" {
		t.Fatalf("%+v", d.Causes)
	}
	want := "; the same holds for 5 more targets: node-1 10.0.0.1, node-2 10.0.0.2, node-3 10.0.0.3 and 2 others"
	if !strings.HasSuffix(d.Causes[0].Says, want) {
		t.Errorf("%s", d.Causes[0].Says)
	}
}

// TestKubeletDeadOutside wants a kubelet that only its neighbours saw dead to come with the three commonest reasons
// and with the run that sees them; one that was seen on its node with none of that.
func TestKubeletDeadOutside(t *testing.T) {
	t.Parallel()
	for name, outside := range map[string]bool{"from outside": true, "near: on the node": false} {
		f := diagnose.Findings{Node: "node-b"}
		add := func(node, check, target string, facts probe.Facts) {
			f.Add(probe.Event{Type: probe.EventResult, Node: node, Result: &probe.Result{Check: check, Target: target,
				Status: probe.Fail, Saw: "refused", Facts: facts}})
		}
		add("node-b", "node-lease", "", nil)
		if outside {
			add("node-a", link.NeighbourReach.ID, "node-b tcp 10250", probe.Facts{"port": 10250, probe.FactReason: "refused"})
		} else {
			add("node-b", kubelet.KubeletHealth.ID, "127.0.0.1:10248", probe.Facts{probe.FactReason: "refused"})
		}
		d := diagnose.Explain(f, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != "kubelet-dead" {
			t.Fatalf("%s: %+v", name, d.Causes)
		}
		text := strings.Join(commandsOf(d.Causes[0].Fix), "\n")
		for _, want := range []string{"calico-probe run --node node-b --via ssh", "swapon --show", "kubelet-client-current.pem",
			"unknown flag"} {
			if strings.Contains(text, want) != outside {
				t.Errorf("%s: %q\n%s", name, want, text)
			}
		}
	}
}
