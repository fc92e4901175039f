//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// settles is how long after a fault shows the tool is asked, once: an engineer on call is not faster.
const settles = 20 * time.Second

// TestRealFaults breaks a node with real Calico in ways for which the rules were not written, and requires the right
// first cause from one run. SEEN=DIR writes each fault's results into a folder instead of judging them. ACCURACY=FILE
// also writes the table of first answers to a file.
func TestRealFaults(t *testing.T) {
	onCalico(t)
	var table []firstAnswer
	t.Cleanup(func() { writeAccuracy(t, table) })
	for _, f := range realFaults {
		t.Run(f.name, func(t *testing.T) {
			is, _ := broke(t, f)
			table = append(table, is)
		})
	}
}

// broke makes a fault, waits until it shows, and judges the first answer about it. The fault ends with the test.
func broke(t *testing.T, f realFault) (firstAnswer, document) {
	t.Cleanup(func() {
		if out, err := script(t, f.undo); err != nil {
			t.Logf("undoing it: %v: %s", err, out)
		}
		calicoReady(t, "node-a")
		eventually(t, 2*time.Minute, func() string {
			if a := call(t, "run", "--node", "node-a", "--skip", "node-load"); a.exit != 0 {
				return "after the undo: " + a.stdout
			}
			return ""
		})
	})
	if out, err := script(t, f.make); err != nil {
		t.Fatalf("making it: %v: %s", err, out)
	}
	eventually(t, 4*time.Minute, func() string {
		if out, err := script(t, f.shows); err != nil {
			return fmt.Sprintf("it does not show: %v: %s", err, out)
		}
		return ""
	})
	time.Sleep(patience(settles))
	dir := t.TempDir()
	if seen := os.Getenv("SEEN"); seen != "" {
		dir = filepath.Join(seen, f.name)
	}
	return judge(t, f, dir)
}

// firstAnswer is the first answer about one fault.
type firstAnswer struct{ fault, want, verdict, first, confidence string }

// is rates an answer: right, silent if a wanted cause is missing, else wrong. A wrong cause with high confidence is
// worst.
func (a firstAnswer) is() string {
	switch {
	case a.first == a.want && (a.want == "none") == (a.verdict == "healthy"):
		return "right"
	case a.first == "none" && a.want != "none":
		return "silent"
	case a.confidence == "high":
		return "wrong, high"
	}
	return "wrong"
}

// writeAccuracy writes the table of first answers to the file ACCURACY.
func writeAccuracy(t *testing.T, table []firstAnswer) {
	file := os.Getenv("ACCURACY")
	if file == "" || len(table) < len(realFaults) {
		return
	}
	var b strings.Builder
	counts := map[string]int{}
	for _, a := range table {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", a.fault, a.want, a.verdict,
			strings.TrimSpace(a.first+" "+a.confidence), a.is())
		counts[a.is()]++
	}
	text := fmt.Sprintf(`# How often the first answer is right

Written by 'make accuracy CALICO=DIR' on Calico itself, not on the stand-in of the tests. Each fault is made, and 20 s after it
shows in 'kubectl get' or in a lost packet, 'calico-probe run' is asked once. Nothing is asked again.

Of %d: %d right, %d silent, %d wrong, %d wrong with high confidence.

| fault | right answer | verdict | first cause | |
|---|---|---|---|---|
`, len(table), counts["right"], counts["silent"], counts["wrong"], counts["wrong, high"]) + b.String()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// judge asks about the broken node once and compares its first cause.
func judge(t *testing.T, f realFault, dir string) (firstAnswer, document) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"run", "--node", "node-a", "-o", "json=" + at("run.json"), "-o",
		"ndjson=" + at("run.ndjson"), "-o", "table=" + at("run.txt")}
	if !f.load {
		args = append(args, "--skip", "node-load")
	}
	if f.ssh {
		args = append(args, bySSH(t)...)
	}
	a := call(t, args...)
	var d document
	if err := json.Unmarshal([]byte(contents(t, at("run.json"))), &d); err != nil {
		t.Fatalf("%v: %s", err, a.stderr)
	}
	out := firstAnswer{fault: f.name, want: f.want, verdict: string(d.Verdict), first: "none"}
	if len(d.Causes) > 0 {
		out.first, out.confidence = d.Causes[0].ID, string(d.Causes[0].Confidence)
	}
	said := fmt.Sprintf("%s: %s, exit %d, first cause %s %s, wanted %s: %s", f.name, d.Verdict, d.Exit, out.first,
		out.confidence, f.want, out.is())
	t.Log(said)
	if os.Getenv("SEEN") != "" {
		keepSeen(t, f, at, said)
	} else if out.is() != "right" {
		t.Error(said)
	} else {
		keepScreen(t, "real-"+f.name, contents(t, at("run.json")))
	}
	return out, d
}

// keepSeen saves further data about a fault: its cause, and what Kubernetes and Calico report about it.
func keepSeen(t *testing.T, f realFault, at func(string) string, said string) {
	for name, text := range map[string]string{
		"said.txt": said + "\n",
		"how.txt":  "# made by\n" + f.make + "\n# shows when\n" + f.shows + "\n# undone by\n" + f.undo + "\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, command := range map[string]string{
		"pods.txt":   `kubectl get pods -A -o wide`,
		"pod.yaml":   `kubectl -n kube-system get pod -l k8s-app=calico-node --field-selector spec.nodeName=node-a -o yaml`,
		"nodes.yaml": `kubectl get nodes -o yaml`,
		"events.txt": `kubectl get events -A --sort-by=.lastTimestamp`,
		"calico.log": `for c in upgrade-ipam install-cni ebpf-bootstrap calico-node; do for p in true false; do echo "== $c previous=$p"
			kubectl -n kube-system logs "$(calico .metadata.name)" -c $c --previous=$p --tail=120 || true; done; done`,
		"node.txt": `on node-a -- sh -c 'ip route; ip rule; ip addr; nft list ruleset | head -400; nstat -az 2>/dev/null | grep -i MD5'`,
	} {
		out, err := script(t, command)
		if err != nil {
			out += fmt.Sprintf("\n%v\n", err)
		}
		if err := os.WriteFile(at(name), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script runs lines of a fault with the cluster's kubectl and sandbox.
func script(t *testing.T, lines string) (string, error) {
	t.Helper()
	cmd := exec.Command("timeout", fmt.Sprint(patience(3*time.Minute).Seconds()), "bash", "-c", realWords+lines)
	cmd.Env = append(os.Environ(), "E2E_CLUSTER="+clusterName,
		"PATH="+file(".cache/bin")+":"+file("bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
