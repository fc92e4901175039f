//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// captured counts a file's packets by interface with an independent reader, those of ARP under "ARP"; tcpdump has to
// read the file too.
func captured(t *testing.T, name string) map[string]int {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, all := map[string]int{}, 0
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at, err := r.Interface(ci.InterfaceIndex)
		if err != nil || !strings.Contains(at.Comment, "the clock of node-") {
			t.Fatalf("%+v: %v", at, err)
		}
		all++
		if gopacket.NewPacket(data, at.LinkType, gopacket.NoCopy).Layer(layers.LayerTypeARP) != nil {
			out["ARP"]++
			continue
		}
		out[at.Name]++
	}
	read := exec.Command("tcpdump", "-nn", "-r", name)
	lines, err := read.Output()
	if err != nil || strings.Count(string(lines), "\n") != all {
		t.Errorf("tcpdump reads %d lines of %d packets: %v", strings.Count(string(lines), "\n"), all, err)
	}
	return out
}

// TestCaptureBothEnds requires our own packets in the captures of both ends, and of one end if a firewall between the
// ends drops them.
func TestCaptureBothEnds(t *testing.T) {
	nodeReady(t, "node-a")
	nodeReady(t, "node-b")
	_, far := podOn(t, "default", "workload-b", "node-b")
	dir := t.TempDir()
	for _, c := range []struct {
		name, args string
		exit       int
		both       bool
	}{
		{"healthy", "--own " + far, 0, true},
		{"connection", "--own " + far + ":9", 3, true},
		{"from a pod", "--pod default/" + podName(t, "workload-a", "node-a") + " --own " + far, 0, true},
		{"dropped", "--pod default/" + podName(t, "workload-a", "node-a") + " --own " + far, 3, false},
	} {
		if !c.both {
			dropping(t, "node-a", "type filter hook forward priority -10 ;", "ip daddr "+far+" drop")
		}
		file := filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".pcapng")
		a := call(t, append([]string{"capture", "--node", "node-a", "--peer", "node-b", "-w", file},
			strings.Fields(c.args)...)...)
		if a.exit != c.exit || !strings.Contains(a.stderr, "node-b: ") {
			t.Errorf("%s: exit %d\n%s%s", c.name, a.exit, a.stdout, a.stderr)
		}
		near, there, arp := 0, 0, 0
		for place, n := range captured(t, file) {
			switch {
			case place == "ARP": // the kernel confirms an older neighbour entry whenever it likes
				arp += n
			case strings.HasPrefix(place, "node-b "):
				there += n
			default:
				near += n
			}
		}
		if near == 0 || (there > 0) != c.both || strings.Count(a.stdout, "\n") != near+there+arp {
			t.Errorf("%s: %d packets on node-a, %d on node-b\n%s%s", c.name, near, there, a.stdout, a.stderr)
		}
	}
	nothingLeft(t)
}

func podName(t *testing.T, begins, node string) string {
	t.Helper()
	name, _ := podOn(t, "default", begins, node)
	return name
}

// dropping adds a rule to a node's firewall until the end of the test.
func dropping(t *testing.T, node, chain, rule string) {
	t.Helper()
	mustSandbox(t, "exec", node, "--", "nft", "add", "table", "ip", "fault")
	t.Cleanup(func() { mustSandbox(t, "exec", node, "--", "nft", "delete", "table", "ip", "fault") })
	mustSandbox(t, "exec", node, "--", "nft", "add", "chain", "ip", "fault", "c", "{ "+chain+" }")
	mustSandbox(t, "exec", node, "--", "nft", "add", "rule", "ip", "fault", "c", rule)
}

// TestCaptureByEachMethod captures by each access method that places a probe, and to a pipe.
func TestCaptureByEachMethod(t *testing.T) {
	slow(t)
	nodeReady(t, "node-a")
	nodeReady(t, "node-b")
	_, far := podOn(t, "default", "workload-a", "node-a")
	execTarget(t)
	for via, more := range map[string][]string{"pod": nil, "ephemeral": nil, "exec": nil, "ssh": bySSH(t)} {
		a := call(t, append([]string{"capture", "--node", "node-b", "--via", via, "--own", far, "-w", "-"}, more...)...)
		if a.exit != 0 || !strings.HasPrefix(a.stdout, "\x0a\x0d\x0d\x0a") || !strings.Contains(a.stderr, "seen: ") {
			t.Errorf("by %s: exit %d, %q, %s", via, a.exit, a.stdout, a.stderr)
		}
	}
	a := call(t, "capture", "--node", "node-a", "--seconds", "20", "--packets", "3", ":6443")
	if a.exit != 0 || strings.Count(a.stdout, "\n") != 3 || !strings.Contains(a.stdout, ".6443") {
		t.Errorf("exit %d, %s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "capture", "--node", "node-a", "--seconds", "1", "192.0.2.1", "-w", filepath.Join(t.TempDir(), "none"))
	if a.exit != 0 || a.stdout != "" || !strings.Contains(a.stderr, "no packet of 192.0.2.1 was seen on any interface") {
		t.Errorf("exit %d, %s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// TestCaptureHasFewRights requires a pod with one capability and its reason, and no leftovers after its client is
// killed.
func TestCaptureHasFewRights(t *testing.T) {
	slow(t)
	nodeReady(t, "node-a")
	file := filepath.Join(t.TempDir(), "file.pcapng")
	cmd, _ := started(t, nil, "capture", "--node", "node-a", "--via", "pod", "--reason", "INC-7", "--seconds", "60",
		":179", "-w", file)
	eventually(t, time.Minute, func() string {
		list, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(),
			metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
		if err != nil {
			return err.Error()
		}
		for _, p := range list.Items {
			if len(p.Spec.Containers) != 1 || p.Spec.Containers[0].SecurityContext.Capabilities == nil {
				continue
			}
			caps, err := json.Marshal(p.Spec.Containers[0].SecurityContext.Capabilities.Add)
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(p.Annotations)
			if string(caps) == `["NET_RAW"]` && strings.Contains(said, "INC-7") && strings.Contains(said, "capture") {
				return ""
			}
		}
		return fmt.Sprintf("there is no such pod among %d", len(list.Items))
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, 2*time.Minute, func() string { return left(t) })
	eventually(t, time.Minute, func() string {
		if out := mustSandbox(t, "exec", "node-a", "--", "cat", "/proc/net/packet"); strings.Contains(out, " 0003 ") {
			return "a packet socket is left: " + out
		}
		return ""
	})
}
