//go:build e2e

package do

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// A node, a router with a NAT that may drop packets, and another node behind it; between the nodes a VXLAN.
const captureWorld = world + `
ip netns exec router nft add table ip t
ip netns exec router nft add chain ip t forward { type filter hook forward priority 0 ; }
ip netns exec router nft add chain ip t pre { type nat hook prerouting priority -100 ; }
ip netns exec router nft add chain ip t post { type nat hook postrouting priority 100 ; }
ip netns exec router nft add rule ip t pre ip daddr 10.96.0.1 tcp dport 80 dnat to 10.9.1.2:8080
ip netns exec router nft add rule ip t post oifname far tcp dport 8080 masquerade fully-random
ip link add vxlan.calico type vxlan id 4096 local 10.9.0.1 remote 10.9.1.2 dstport 8472
ip addr add 10.244.9.1/24 dev vxlan.calico
ip link set vxlan.calico up
ip -n far link add vxlan.calico type vxlan id 4096 local 10.9.1.2 remote 10.9.0.1 dstport 8472
ip -n far addr add 10.244.9.2/24 dev vxlan.calico
ip -n far link set vxlan.calico up
`

// TestCaptureElsewhere is a tool in another network namespace, for the tests below.
func TestCaptureElsewhere(t *testing.T) {
	args := os.Getenv("CAPTURE_ELSEWHERE")
	if args == "" {
		t.Skip("it is part of other tests")
	}
	r, out := use(t.Context(), t, "/", "capture", strings.Fields(args)...)
	must.Do(t, json.NewEncoder(os.Stdout).Encode(elsewhere{r, out}))
}

type elsewhere struct {
	Result probe.Result
	Out    string
}

// captureIn starts a capture in a namespace, and returns a function that waits for its end.
func captureIn(t *testing.T, namespace, args string) func() elsewhere {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command("ip", "netns", "exec", namespace, self, "-test.run=^TestCaptureElsewhere$")
	cmd.Env = append(os.Environ(), "CAPTURE_ELSEWHERE="+args)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	if !listening(namespace) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("nothing listens in %s: %s", namespace, out.String())
	}
	return func() elsewhere {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		var e elsewhere
		must.Do(t, json.NewDecoder(&out).Decode(&e))
		return e
	}
}

// listening waits until a namespace has a packet socket.
func listening(namespace string) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command("ip", "netns", "exec", namespace, "cat", "/proc/net/packet").Output()
		if err == nil && bound(out) {
			return true
		}
	}
	return false
}

// TestRealCapture checks that our own packets are seen at every place that they pass, and at none after the one where
// they end.
func TestRealCapture(t *testing.T) {
	if !nstest.Enter(t, captureWorld) {
		return
	}
	for _, c := range []struct {
		name, rule, to    string
		near, router, far string // of the results
		status, there     probe.Status
	}{
		{"it arrives", "", "10.9.1.2", "seen: eth0 in 5 out 5", "near in 5 out 5, far in 5 out 5", "eth0 in 5 out 5",
			probe.OK, probe.OK},
		{"through a tunnel", "", "10.244.9.2", "seen: vxlan.calico in 5 out 5, eth0 in 5 out 5",
			"no marked packet", // its port is not the default one, and only its ends have it
			"eth0 in 5 out 5, vxlan.calico in 5 out 5", probe.OK, probe.OK},
		{"a port where nobody listens", "", "10.9.1.2:81", "10.9.1.2:81 refuses the connection; seen: eth0 in 1 out 1",
			"near in 1 out 1, far in 1 out 1", "eth0 in 1 out 1", probe.Fail, probe.OK},
		{"through NATs", "", "10.96.0.1:80", "seen: eth0 in 1 out 1", "near in 1 out 1, far in 1 out 1", "eth0 in 1 out 1",
			probe.Fail, probe.OK},
		{"its end is the router", "ip daddr 10.9.1.2 drop", "10.9.1.2",
			"0 of 5 pings to 10.9.1.2 came back; seen: eth0 out 5", "near in 5", "no marked packet was seen", probe.Fail, probe.Fail},
		{"the router says so", "ip daddr 10.9.1.2 reject with icmp type admin-prohibited", "10.9.1.2",
			"administratively prohibited); seen: eth0 in 5 out 5", "near in 5 out 5", "no marked packet", probe.Fail,
			probe.Fail},
		{"it never leaves", "", "10.9.1.77", "a firewall rule", "no marked packet", "no marked packet", probe.Fail,
			probe.Fail},
		{"unused address", "", "10.9.0.200", "packets of ARP", "no marked packet", "no marked packet", probe.Fail,
			probe.Fail},
	} {
		if c.rule != "" {
			run(t, "ip netns exec router nft add rule ip t forward "+c.rule)
		}
		args := fmt.Sprintf("--seconds 4 --mark %x %s", len(c.name), c.to)
		router, far := captureIn(t, "router", args), captureIn(t, "far", args)
		near, out := use(t.Context(), t, "/", "capture", strings.Fields("--own "+args)...)
		atRouter, there := router(), far()
		if near.Status != c.status || !strings.Contains(near.Saw, c.near) {
			t.Errorf("%s: here %v %s\n%s", c.name, near.Status, near.Saw, out)
		}
		if !strings.Contains(atRouter.Result.Saw, c.router) {
			t.Errorf("%s: the router %v", c.name, atRouter)
		}
		if there.Result.Status != c.there || !strings.Contains(there.Result.Saw, c.far) {
			t.Errorf("%s: there %v", c.name, there)
		}
		if strings.Contains(atRouter.Result.Saw, "far out") && c.there == probe.Fail {
			t.Errorf("%s: it is said to have left the router: %s", c.name, atRouter.Result.Saw)
		}
		run(t, "ip netns exec router nft flush chain ip t forward")
	}
}

// TestRealCaptureOfAHost shows foreign packets without any of their payload, and changes nothing.
func TestRealCaptureOfAHost(t *testing.T) {
	if !nstest.Enter(t, captureWorld) {
		return
	}
	l := must.Get(net.Listen("tcp", "10.9.0.1:8080"))(t)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hunter2") }))
	}()
	before := links(t)
	for _, c := range []struct {
		args    string
		payload bool
	}{
		{"--seconds 3 :8080", false},
		{"--seconds 3 --frames 127.0.0.1", false},
		{"--seconds 3 --frames -i lo -p tcp 10.9.0.1:8080", false},
		{"--seconds 3 --frames --payload :8080", true},
	} {
		done := make(chan elsewhere)
		go func() {
			r, out := use(t.Context(), t, "/", "capture", strings.Fields(c.args)...)
			done <- elsewhere{r, out}
		}()
		awaitSocket(t)
		if during := links(t); during != before {
			t.Errorf("%s: interfaces have changed:\n%s\n%s", c.args, before, during)
		}
		resp, err := http.Get("http://10.9.0.1:8080/?password=hunter2")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		must.Get(icmp.One(t.Context(), netip.MustParseAddr("127.0.0.1"), 0, time.Second))(t)
		got := <-done
		if got.Result.Status != probe.OK || strings.Count(got.Out, "\n") < 3 {
			t.Errorf("%s: %v\n%s", c.args, got.Result.Saw, got.Out)
		}
		said := got.Out
		if strings.Contains(c.args, "frames") {
			said = ""
			reader := &capture.Reader{Payload: true, Packets: 1000, Packet: func(p capture.Packet) error {
				said += string(p.Data)
				return nil
			}}
			if _, err := reader.Write([]byte(got.Out)); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(said, "hunter2") != c.payload {
			t.Errorf("%s: what was said is there: %v\n%q", c.args, !c.payload, said)
		}
	}
}

// TestRealCaptureFlood bounds the output for many packets, and reports what is missing.
func TestRealCaptureFlood(t *testing.T) {
	if !nstest.Enter(t, captureWorld) {
		return
	}
	taken, err := net.ListenPacket("udp", "127.0.0.1:9") // else ICMP would answer each, maybe like one of ours
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		conn := must.Get(net.Dial("udp", "127.0.0.1:9"))(t)
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = conn.Write([]byte("flood"))
				}
			}
		}()
	}
	r, out := use(t.Context(), t, "/", "capture", "--packets", "500", "--seconds", "60", "-p", "udp", "127.0.0.1:9")
	if n := strings.Count(out, "\n"); r.Status != probe.OK || n != 501 ||
		!strings.Contains(r.Saw, "the limit of --packets") {
		t.Errorf("%d lines: %v", n, r.Saw)
	}
	r, _ = use(t.Context(), t, "/", "capture", "--packets", "20000", "--seconds", "60", "127.0.0.1")
	if r.Status != probe.OK || !strings.Contains(r.Saw, "20000 packets: lo") {
		t.Error(r.Saw)
	}
	t.Log(r.Saw)
	r, _ = use(t.Context(), t, "/", "capture", "--own", "--seconds", "5", "10.9.1.2") // none of them is ours
	if r.Status != probe.OK || !strings.Contains(r.Saw, "seen: eth0 in 5 out 5") {
		t.Error(r.Saw)
	}
}

// links are the interfaces with all settings, without counters.
func links(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-d", "link").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	return string(out)
}

// bound reports whether a packet socket receives packets of all protocols.
func bound(sockets []byte) bool { return bytes.Contains(sockets, []byte(" 0003 ")) }

// awaitSocket waits for a packet socket here.
func awaitSocket(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile("/proc/net/packet")
		if err == nil && bound(b) {
			return
		}
	}
	t.Fatal("no packet socket was opened")
}

func run(t *testing.T, line string) {
	t.Helper()
	args := strings.Fields(line)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}
