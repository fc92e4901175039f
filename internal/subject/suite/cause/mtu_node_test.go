package cause

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// TestSmallMTUIsAFault wants packets that are lost for a node's own MTU to be a fault, though no check failed.
func TestSmallMTUIsAFault(t *testing.T) {
	t.Parallel()
	c := diagnose.Explain(night(t, "mtu-node-own-interface"), All()).Causes[0]
	if c.ID != "mtu-node-small" || c.Confidence != probe.High || !c.Fault {
		t.Errorf("%s, %s, fault %v", c.ID, c.Confidence, c.Fault)
	}
}

// TestMTUOfOneNeighbour wants the number of one neighbour to make no fault of a healthy node: two do, and one does of
// a node whose pods send more than its interface takes (TestSmallMTUIsAFault).
func TestMTUOfOneNeighbour(t *testing.T) {
	t.Parallel()
	healthy := ownWord(night(t, "differs-healthy-odd"))
	says := func(from string, facts probe.Facts) diagnose.Finding {
		facts[probe.FactFamily], facts[probe.FactNode] = 4.0, healthy.Node
		return diagnose.Finding{Node: from, Method: "neighbour", Result: probe.Result{Check: link.NeighbourReach.ID,
			Target: healthy.Node + " 10.88.0.11 icmp", Status: probe.OK, Saw: "5 of 5 packets came back", Facts: facts}}
	}
	small := func(from string) diagnose.Finding {
		return says(from, probe.Facts{probe.FactPasses: 1404.0, probe.FactPromised: 9000.0})
	}
	whole := says("node-c", probe.Facts{})
	for name, c := range map[string]struct {
		seen []diagnose.Finding
		want string
	}{
		"one":                        {[]diagnose.Finding{small("node-m")}, "mtu-node-small IPv4 medium"},
		"one, and a third disagrees": {[]diagnose.Finding{small("node-m"), whole}, ""},
		"one twice":                  {[]diagnose.Finding{small("node-m"), small("node-m")}, "mtu-node-small IPv4 medium"},
		"two":                        {[]diagnose.Finding{small("node-m"), small("node-n")}, "mtu-node-small IPv4 high"},
		"two, and a third disagrees": {[]diagnose.Finding{small("node-m"), small("node-n"), whole},
			"mtu-node-small IPv4 medium"},
	} {
		f := healthy
		f.All = append(slices.Clone(f.All), c.seen...)
		if got := causesOf(f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// night is a recorded night.
func night(t *testing.T, name string) diagnose.Findings {
	t.Helper()
	b, err := os.ReadFile(nightfile.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range txtar.Parse(b).Files {
		if section.Name == "stream" {
			return read(t, section.Data)
		}
	}
	t.Fatalf("%s has no stream", name)
	return diagnose.Findings{}
}

// ownWord is what the node in question and the API say of it.
func ownWord(f diagnose.Findings) diagnose.Findings {
	f.All = diagnose.Keep(f.All, func(r diagnose.Finding) bool { return r.Node == f.Node })
	return f
}
