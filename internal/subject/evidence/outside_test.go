package evidence

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// TestUnreached expects a node to count as closed only if others reach the same elsewhere. Failures everywhere, without
// a route, or possibly by a policy prove nothing about the node.
func TestUnreached(t *testing.T) {
	t.Parallel()
	facts := func(node string, port int, key probe.Fact, value any) probe.Facts {
		return probe.Facts{probe.FactNode: node, probe.FactPort: port, probe.FactFamily: 4, key: value}
	}
	kubelet, reference := facts("b", 10250, probe.FactReason, "timeout"), facts("c", 10250, link.FactReference, true)
	pod, noRoute := facts("b", 0, probe.FactReason, "timeout"), facts("b", 0, probe.FactReason, NoRoute)
	nodePort, elsewhere := facts("b", 30080, probe.FactReason, "timeout"), facts("a", 30080, probe.FactReason, "")
	type seen struct {
		from, check, target string
		status              probe.Status
		facts               probe.Facts
	}
	reach, service := link.NeighbourReach.ID, service.ServiceNodePort.ID
	for name, c := range map[string]struct {
		seen  []seen
		want  string
		grade probe.Status // with a witness of the same role
	}{
		"all well": {[]seen{{"a", reach, "b tcp 10250", probe.OK, kubelet}}, "", ""},
		"kubelet, by one": {[]seen{{"a", reach, "b tcp 10250", probe.Fail, kubelet}},
			"tcp 10250 from a (timeout)", probe.Warn},
		"kubelet, by two": {[]seen{{"a", reach, "b tcp 10250", probe.Fail, kubelet},
			{"c", reach, "b tcp 10250", probe.Fail, kubelet}},
			"tcp 10250 from a (timeout), tcp 10250 from c (timeout)", probe.Warn},
		"kubelet, and another reaches it": {[]seen{{"a", reach, "b tcp 10250", probe.Fail, kubelet},
			{"c", reach, "b tcp 10250", probe.OK, kubelet}}, "tcp 10250 from a (timeout)", probe.Warn},
		"kubelet, and another's is open": {[]seen{{"a", reach, "b tcp 10250", probe.Fail, kubelet},
			{"a", reach, "c tcp 10250", probe.OK, reference}}, "tcp 10250 from a (timeout)", probe.Warn},
		"every kubelet is closed": {[]seen{{"a", reach, "b tcp 10250", probe.Fail, kubelet},
			{"a", reach, "c tcp 10250", probe.Fail, reference}}, "", ""},
		"pod, by one": {[]seen{{"a", reach, "b pod default/x", probe.Fail, pod}}, "pod default/x from a (timeout)",
			probe.Warn},
		"pod, by two": {[]seen{{"a", reach, "b pod default/x", probe.Fail, pod},
			{"c", reach, "b pod default/x", probe.Fail, pod}},
			"pod default/x from a (timeout), pod default/x from c (timeout)", probe.Fail},
		"pod that a policy may close": {[]seen{{"a", reach, "b pod default/x", probe.Warn, pod}}, "", ""},
		"no route there":              {[]seen{{"a", reach, "b pod default/x", probe.Fail, noRoute}}, "", ""},
		"node port": {[]seen{{"a", service, "default/x b 10.0.0.2:30080", probe.Fail, nodePort},
			{"a", service, "default/x a 10.0.0.1:30080", probe.OK, elsewhere}},
			"default/x b 10.0.0.2:30080 from a (timeout)", probe.Warn},
		"node port that answers nowhere": {[]seen{{"a", service, "default/x b 10.0.0.2:30080", probe.Fail, nodePort},
			{"a", service, "default/x a 10.0.0.1:30080", probe.Fail, elsewhere}}, "", ""},
		"node port of another service": {[]seen{{"a", service, "default/x b 10.0.0.2:30080", probe.Fail, nodePort},
			{"a", service, "default/xy a 10.0.0.1:30081", probe.OK, elsewhere}}, "", ""},
	} {
		f := diagnose.Findings{Node: "b"}
		for _, s := range c.seen {
			f.Add(probe.Event{Type: probe.EventResult, Node: s.from, Method: "neighbour",
				Result: &probe.Result{Check: s.check, Target: s.target, Status: s.status, Facts: s.facts}})
		}
		got := Unreached(f)
		if places := Places(f, got); places != c.want {
			t.Errorf("%s: %q, want %q", name, places, c.want)
		}
		for kind, places := range Closed(got) {
			if grade := Grade(f, kind, places, true); grade != c.grade {
				t.Errorf("%s: %s %s, want %s", name, kind, grade, c.grade)
			}
			if grade := Grade(f, kind, places, false); name == "kubelet, by two" && grade != probe.Info {
				t.Errorf("%s, from nodes of another role: %s", name, grade)
			}
		}
	}
	f := diagnose.Findings{Node: "b"}
	for _, from := range strings.Fields("a c d e f g") {
		f.Add(probe.Event{Type: probe.EventResult, Node: from, Method: "neighbour",
			Result: &probe.Result{Check: reach, Target: "b pod default/x", Status: probe.Fail, Facts: pod}})
	}
	if got := Places(f, Unreached(f)); !strings.HasSuffix(got, ", and 2 more") {
		t.Errorf("six nodes: %q", got)
	}
}

// TestManyUnreached has one witness send many results: only a limited number is compared, pair by pair.
func TestManyUnreached(t *testing.T) {
	t.Parallel()
	f := diagnose.Findings{Node: "b"}
	for i := range 20_000 {
		facts := probe.Facts{probe.FactNode: "b", probe.FactPort: 10250, probe.FactFamily: 4, "i": i}
		f.Add(probe.Event{Type: probe.EventResult, Node: "a", Method: "neighbour",
			Result: &probe.Result{Check: link.NeighbourReach.ID, Target: "b tcp 10250", Status: probe.Fail, Facts: facts}})
	}
	if n := len(Unreached(f)); n == 0 || n > 100 {
		t.Errorf("%d results are read", n)
	}
}
