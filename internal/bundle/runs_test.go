package bundle

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMasked requires that secrets are removed from all places of a run, and that nothing else changes.
func TestMasked(t *testing.T) {
	r := probe.Found(probe.Fail, "GET https://u:p4ss@registry.example/v2: refused").With("image_id", "sha256:"+strings.Repeat("0a", 32)).
		With("says", []string{"Authorization: Bearer " + token}).With("count", int64(123456789012))
	r.Check, r.Lines = "registry", []string{"token " + token, "a line"}
	run := report.Run{Node: "a", Events: []probe.Event{
		{Type: probe.EventResult, Seq: 7, Node: "a", Method: "pod", Result: &r},
		{Type: probe.EventLog, Node: "a", Text: "-----BEGIN RSA PRIVATE KEY----- MIIabc"},
		{Type: probe.EventLog, Node: "a", Text: "GET /v2?x=1&authorization=c2VjcmV0MQ <bearer s3cr3tw0rd>"}, // JSON has \u0026
		{Type: probe.EventLog, Node: "a", Text: "certificate: secret-agent pod has key file /etc/key, node bearing west"},
	}}
	left, err := masked(&run)
	if err != nil || len(left) != 5 || left[0] != (Removal{ruleToken, "registry"}) || left[3].What != "log" {
		t.Errorf("%v, %v", left, err)
	}
	text := string(mustJSON(t, run.Events))
	for _, gone := range []string{"p4ss", "eyJ", "MIIabc", "c2VjcmV0MQ", "s3cr3tw0rd"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is in %s", gone, text)
		}
	}
	for _, stays := range []string{"registry.example", strings.Repeat("0a", 32), "a line", "secret-agent pod has key file /etc/key", "123456789012", `"seq":7`, `"way":"pod"`} {
		if !strings.Contains(text, stays) {
			t.Errorf("%s is not in %s", stays, text)
		}
	}
}

// TestNothingIsMaskedInVain requires every recorded night unchanged in a bundle: it contains no secrets, and causes
// need each of its facts.
func TestNothingIsMaskedInVain(t *testing.T) {
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded streams")
	}
	for _, name := range files {
		archive := must.Get(txtar.ParseFile(name))(t)
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "stream" })
		if i < 0 {
			t.Fatalf("%s has no stream", name)
		}
		var run report.Run
		for d := probe.NewDecoder(bytes.NewReader(archive.Files[i].Data)); ; {
			ev, err := d.Next()
			if err != nil {
				break
			}
			run.Add(ev)
		}
		if left, err := masked(&run); err != nil || len(left) > 0 || len(run.Events) == 0 {
			t.Errorf("%s: %d events, without %v (%v)", name, len(run.Events), left, err)
		}
	}
}

// TestNodes requires the worst nodes first, then the baseline nodes, and no invalid name.
func TestNodes(t *testing.T) {
	run := func(node, word string, others ...string) report.Run {
		out := report.Run{Node: node, Verdict: &probe.Verdict{Word: word}}
		for _, other := range others {
			out.Events = append(out.Events, probe.Event{Node: other})
		}
		return out
	}
	saved := report.Saved{Runs: []report.Run{run("a", report.WordHealthy), run("b", report.WordFault, "c", "a"),
		{Node: "d"}, run("e,metadata.name=x", report.WordFault)}}
	nodes, gaps := Nodes([]report.Saved{saved})
	if strings.Join(nodes, " ") != "b d a c" || len(gaps) != 1 {
		t.Errorf("%v, %v", nodes, gaps)
	}
	for i := range maxNodes + 5 {
		saved.Runs = append(saved.Runs, run(fmt.Sprintf("n%d", i), report.WordHealthy))
	}
	nodes, gaps = Nodes([]report.Saved{saved})
	if len(nodes) != maxNodes || nodes[0] != "b" || !strings.Contains(gaps[1], "objects of 9 more nodes") {
		t.Errorf("%v, %v", nodes, gaps)
	}
	other := report.Saved{Fleet: &probe.Start{Cluster: &probe.Cluster{Server: "https://x"}}}
	both := []report.Saved{saved, other}
	if Elsewhere(both, "https://x") != "" || Elsewhere(both, "https://y") != "https://x" {
		t.Error("where a run is from")
	}
}
