//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// broken injects a fault of the lab and heals it with the test.
func broken(t *testing.T, fault string) {
	t.Helper()
	t.Cleanup(func() { mustSandbox(t, "fault", "heal") })
	mustSandbox(t, "fault", "inject", fault)
}

// says fails unless some line of the contrast has all the texts.
func (d document) says(t *testing.T, texts ...string) {
	t.Helper()
next:
	for _, line := range d.Contrast {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		return
	}
	t.Errorf("no line with %q in %q", texts, d.Contrast)
}

// saved runs the client and keeps its stdout in a file.
func saved(t *testing.T, name string, args ...string) (string, answer) {
	t.Helper()
	a := call(t, args...)
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(a.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, a
}

// TestContrast kills a node's BIRD, and requires the peer's results: both ends of the session, its good results, and
// its view of the node. It requires the same from the saved run, and the difference to a good day and to the other
// node.
func TestContrast(t *testing.T) {
	slow(t)
	calicoReady(t, "node-b")
	// How busy this machine is says nothing of the node.
	good, a := saved(t, "good.ndjson", "run", "--node", "node-b", "--skip", "node-load,startup-budget", "-o", "ndjson")
	if a.exit != 0 || !strings.Contains(a.stdout, "tested from outside, by probes on node-a") ||
		strings.Contains(a.stdout, `"type":"comparison"`) {
		t.Errorf("a healthy node: exit %d, a view from outside and no comparison\n%s", a.exit, a.stderr)
	}
	broken(t, "bird-dead")
	bad, a := saved(t, "bad.json", "run", "--node", "node-b", "--skip", "node-load,startup-budget", "-o", "json")
	var d document
	if err := json.Unmarshal([]byte(a.stdout), &d); err != nil || a.exit != 3 {
		t.Fatalf("exit %d, %v\n%s", a.exit, err, a.stderr)
	}
	d.says(t, "compared with baseline node node-a:")
	d.says(t, "bird-socket", "ok on node-a")
	d.says(t, "node-b seen from node-a: answers icmp, tcp 22, tcp 10250, pod default/workload-b", "tcp 179 (refused)") // of IPv4; of IPv6 the session stands
	d.says(t, "BGP IPv4", "node-b to node-a: BIRD does not answer | node-a to node-b: start ")
	d.says(t, "BGP IPv6", "node-b to node-a: Established | node-a to node-b: Established")
	there := d.there()
	there.want(t, "bird-socket", probe.OK)
	there.want(t, "bgp-session", probe.Fail, "node-b 10.88.0.12")
	there.want(t, "neighbour-reach", probe.Fail, "node-b 10.88.0.12 tcp 179", "refused")
	there.want(t, "neighbour-reach", probe.Skip, "node-b fd00:10:88::12 tcp 179", "the BGP session is up")
	there.want(t, "neighbour-reach", probe.OK, "node-b pod default/workload-b")
	there.want(t, "neighbour-reach", probe.OK, "tcp 22")

	stream, a := saved(t, "bad.ndjson", "run", "--node", "node-b", "--skip", "node-load,startup-budget", "-o", "ndjson")
	for file, live := range map[string]answer{bad: {exit: 3, stdout: mustRead(t, bad)}, stream: a} {
		again, b := report(t, "analyze", file)
		if b.exit != live.exit || b.stderr != "" {
			t.Errorf("%s: exit %d, live %d\n%s", file, b.exit, live.exit, b.stderr)
		}
		causes, verdict := concluded(t, live.stdout)
		if again.Verdict != verdict || !reflect.DeepEqual(again.Causes, causes) {
			t.Errorf("%s: %s %v\nlive: %s %v", file, again.Verdict, again.Causes, verdict, causes)
		}
	}
	for _, args := range [][]string{{"diff", good, stream}, {"diff", good, bad}} {
		if a := call(t, args...); a.exit != 3 || !strings.Contains(a.stdout, "worse    bird-socket        /run/calico/bird.ctl") {
			t.Errorf("%v: exit %d\n%s%s", args, a.exit, a.stdout, a.stderr)
		}
	}
	if a := call(t, "diff", stream, good); a.exit != 0 || !strings.Contains(a.stdout, "better   bird-socket") {
		t.Errorf("the other way round: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// TestClosedToOthers blocks parts of a node from outside while everything works from inside. The report must name each
// rule.
func TestClosedToOthers(t *testing.T) {
	calicoReady(t, "node-b")
	run := []string{"run", "--node", "node-b", "--skip", "node-load,startup-budget"}
	a := call(t, append(run, "--baselines", "0")...)
	if a.exit != 0 || !strings.Contains(a.folded(), "no other node tested this node: --baselines 0") {
		t.Errorf("--baselines 0: exit %d\n%s", a.exit, a.stdout)
	}
	for name, c := range map[string]struct {
		saw, cause string
		rule       []string
	}{
		"kubelet": {"10.88.0.12 tcp 10250 from node-a (timeout)", "dport 10250 drop",
			[]string{"-t", "filter", "-I", "INPUT", "-p", "tcp", "--dport", "10250", "-s", "10.88.0.11", "-j", "DROP"}},
		"pods": {"pod default/workload-b", "daddr 10.244.0.0/16 drop",
			[]string{"-t", "raw", "-I", "PREROUTING", "-s", "10.88.0.11", "-d", "10.244.0.0/16", "-j", "DROP"}},
		"node ports": {"node-b 10.88.0.12:30080 from node-a (timeout)", "saddr 10.88.0.11 dport 30000-32767 drop",
			[]string{"-t", "mangle", "-I", "PREROUTING", "-p", "tcp", "--dport", "30000:32767", "-s", "10.88.0.11",
				"-j", "DROP"}},
	} {
		t.Run(name, func(t *testing.T) {
			iptables := func(with string) {
				rule := strings.Split(strings.Replace(strings.Join(c.rule, " "), "-I", with, 1), " ")
				mustSandbox(t, "exec", append([]string{"node-b", "--", "iptables"}, rule...)...)
			}
			iptables("-I")
			t.Cleanup(func() { iptables("-D") })
			d, a := report(t, run...)
			d.want(t, "neighbour-reach", probe.Warn, "not reachable: ", c.saw) // one witness makes nothing certain
			if len(d.Causes) == 0 || !strings.Contains(d.Causes[0].Says, c.cause) {
				t.Errorf("exit %d, %v", a.exit, d.Causes)
			}
		})
	}
	nothingLeft(t)
}

// concluded is what a live run concluded, whichever way it was saved.
func concluded(t *testing.T, text string) (causes []probe.Cause, verdict string) {
	t.Helper()
	var d document
	if json.Unmarshal([]byte(text), &d) == nil {
		return d.Causes, d.Verdict
	}
	causes = []probe.Cause{}
	for line := range strings.Lines(text) {
		var ev struct {
			Cause   *probe.Cause
			Verdict struct{ Verdict string }
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Cause != nil {
			causes = append(causes, *ev.Cause)
		}
		verdict = ev.Verdict.Verdict
	}
	return causes, verdict
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNeighbourWay examines nodes that start nothing. It must distinguish a dead kubelet from a disconnected machine:
// the API shows both as NotReady.
func TestNeighbourWay(t *testing.T) {
	slow(t)
	d, a := report(t, "run", "--node", "node-b", "--via", "outside")
	if a.exit != 5 { // what is inside was not asked: never healthy
		t.Errorf("a healthy node: exit %d", a.exit)
	}
	d.there().want(t, "neighbour-reach", probe.OK, "node-b 10.88.0.12 tcp 10250")

	t.Run("kubelet", func(t *testing.T) {
		broken(t, "kubelet-stopped")
		d, a := report(t, "run", "--node", "node-b", "--via", "outside")
		if a.exit != 5 && a.exit != 3 {
			t.Errorf("exit %d\n%s", a.exit, a.stderr)
		}
		there := d.there()
		there.want(t, "neighbour-reach", probe.OK, "node-b 10.88.0.12 icmp")
		there.want(t, "neighbour-reach", probe.Fail, "node-b 10.88.0.12 tcp 10250", "refused")
		d.says(t, "node-b to node-a: not checked | node-a to node-b: Established")
	})
	t.Run("cut off", func(t *testing.T) {
		nodeReady(t, "node-b")
		t.Cleanup(func() {
			mustSandbox(t, "exec", "node-b", "--", "nft", "delete", "table", "netdev", "cut")
			nodeReady(t, "node-b")
		})
		mustSandbox(t, "exec", "node-b", "--", "nft", "add", "table", "netdev", "cut")
		mustSandbox(t, "exec", "node-b", "--", "nft", "add", "chain", "netdev", "cut", "c", "{ type filter hook ingress device eth0 priority 0 ; policy drop ; }")
		eventually(t, 2*time.Minute, func() string {
			d, _ := report(t, "run", "--node", "node-b", "--via", "api")
			for _, r := range d.of("node-lease") {
				if r.Status == probe.Fail {
					return ""
				}
			}
			return "the lease still runs"
		})
		// Every access method fails, and other nodes have been asked meanwhile.
		d, a := report(t, "run", "--node", "node-b")
		if a.exit != 3 {
			t.Errorf("exit %d after %v\n%s", a.exit, a.took, a.stderr)
		}
		d.want(t, "probe-placed", probe.Unknown, "pod: ")
		there := d.there()
		// "no answer to ARP or NDP" comes after three seconds, if the ping lasts so long
		there.want(t, "neighbour-reach", probe.Fail, "node-b 10.88.0.12 icmp")
		for _, r := range there.of("neighbour-reach") {
			if r.Status != probe.Fail && r.Status != probe.Skip {
				t.Errorf("heard of a node that is cut off: %v", r)
			}
		}
	})
	nothingLeft(t)
}
