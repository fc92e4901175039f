package cause

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// TestArgs requires each recorded night to supply all values of its commands: a peer that is not a node has no name,
// and an MTU that was not measured has no number. Old nights lack the namespace of a refused pod, which is allowed.
func TestArgs(t *testing.T) {
	t.Parallel()
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded streams")
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f diagnose.Findings
		for _, section := range txtar.Parse(b).Files {
			if section.Name == "stream" {
				f = read(t, section.Data)
			}
		}
		builtIn := []string{"INPUT", "OUTPUT", "FORWARD", "PREROUTING", "POSTROUTING"} // chains whose names are capitals
		for _, rule := range All().Rules {
			for _, c := range rule.Match(f) {
				for _, command := range commandsOf(rule.FixOf(c)) {
					for key, value := range c.Args {
						if strings.Trim(value.Typed(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" &&
							value != diagnose.OwnArg("CONTROL-PLANE-NODE") &&
							key != "tried" && !slices.Contains(builtIn, value.Typed()) && value != diagnose.NodesWord(value.Said(), "MTU") &&
							strings.Contains(command, "{"+key+"}") {
							t.Errorf("%s, %s: %q for %s in %s", filepath.Base(name), rule.ID, value.Said(), key, command)
						}
					}
				}
			}
		}
	}
}

// commandsOf are all commands of a fix, with the conditions of some.
func commandsOf(fix probe.Fix) []string {
	var out []string
	for _, block := range fix.Blocks() {
		out = append(append(out, block.If), block.Commands...)
	}
	return out
}

// TestKnownNames wants the name a finding has in what is said or to be typed.
func TestKnownNames(t *testing.T) {
	t.Parallel()
	for file, wants := range map[string]string{
		"000-upgrade-ipam-locked":  "sudo kill 36630",
		"peer-bird-dead-both-ends": ", only ",
	} {
		b, err := os.ReadFile(nightfile.Path(file))
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for _, section := range txtar.Parse(b).Files {
			if section.Name != "stream" {
				continue
			}
			f := read(t, section.Data)
			// which says it better
			f.All = slices.DeleteFunc(f.All, func(r diagnose.Finding) bool { return r.Check == bgp.BirdSocket.ID })
			for _, c := range diagnose.Explain(f, All()).Causes {
				text += c.Says + "\n" + strings.Join(commandsOf(c.Fix), "\n") + "\n"
			}
		}
		if !strings.Contains(text, wants) {
			t.Errorf("%s has no %q:\n%s", file, wants, text)
		}
	}
}

// TestNodesWord wants no number or method that only a node says in a command for all nodes.
func TestNodesWord(t *testing.T) {
	t.Parallel()
	for _, r := range []probe.Result{
		{Check: cni.CNIMTU.ID, Status: probe.Fail, Facts: probe.Facts{cni.FactRoom: 1.0}},
		{Check: cni.CNIMTU.ID, Status: probe.Fail, Facts: probe.Facts{cni.FactRoom: 1333.0}},
		{Check: link.IPAutodetect.ID, Target: "10.0.0.5", Status: probe.Fail, Facts: probe.Facts{
			link.FactPicked: "172.17.0.1", probe.FactRegistered: "10.0.0.5", link.FactMethod: "first-found",
			link.FactAlternatives: map[string]any{"cidr=203.0.113.0/32": "10.0.0.5"},
		}},
	} {
		causes := diagnose.Explain(diagnose.Findings{Node: "n", All: []diagnose.Finding{{Node: "n", Result: r}}},
			All()).Causes
		if len(causes) == 0 {
			t.Errorf("no cause of %+v", r)
		}
		for _, c := range causes {
			for _, command := range commandsOf(c.Fix) {
				for _, word := range []string{`mtu":1`, `mtu":"1`, "1333", "203.0.113.0"} {
					if strings.Contains(command, word) {
						t.Errorf("%s: %s in %s", c.ID, word, command)
					}
				}
			}
		}
	}
}
