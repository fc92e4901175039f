package checks

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
)

// node is a node's root made of files, under a path short enough for sockets.
func node(t *testing.T, files map[string]string) *probe.Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &probe.Host{Root: dir, Proc: filepath.Join(dir, "proc")}
}

// run asks one check, without those it needs, and gives its results.
func run(t *testing.T, c *probe.Check, h *probe.Host, targets ...probe.Target) []probe.Result {
	t.Helper()
	var got []probe.Result
	r := probe.Runner{Suite: []*probe.Check{c}, Host: h}
	r.Run(t.Context(), probe.Plan{Checks: []string{c.ID}, Targets: targets}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	return got
}

// want fails unless one of the results is about the target and says all of saw.
func want(t *testing.T, got []probe.Result, target string, s probe.Status, saw ...string) probe.Result {
	t.Helper()
next:
	for _, r := range got {
		if r.Target != target || r.Status != s {
			continue
		}
		for _, text := range saw {
			if !strings.Contains(r.Saw, text) {
				continue next
			}
		}
		return r
	}
	t.Errorf("want %s about %q with %q, got:", s, target, saw)
	for _, r := range got {
		t.Errorf("  %s %q: %s", r.Status, r.Target, r.Saw)
	}
	return probe.Result{}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	if err := probe.Validate(All()); err != nil {
		t.Error(err)
	}
	for _, c := range All() {
		if c.From != probe.FromNode || len(c.Access) == 0 || len(c.Tags) == 0 {
			t.Errorf("%s: vantage %q, access %v, tags %v", c.ID, c.From, c.Access, c.Tags)
		}
	}
}

const hang = `+--------------+---------+-----------+-----------+--------+
|  COMPONENT   | TIMEOUT | LIVENESS  | READINESS | DETAIL |
+--------------+---------+-----------+-----------+--------+
| FelixStartup | -       | reporting live | reporting non-ready | |
| InternalDataplaneMainLoop | 20s | timed out | - |        |
+--------------+---------+-----------+-----------+--------+`

// felixAt is where a test's Felix answers.
func felixAt(t *testing.T, f http.HandlerFunc) probe.Target {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return probe.Target{Kind: probe.KindFelix, Host: "localhost", Port: int(at.Port())}
}

func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestFelix(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"})
	h.Proc = "/proc"
	r := want(t, run(t, FelixLive, h, felixAt(t, says(503, hang))), "", probe.Fail, "503", "InternalDataplaneMainLoop timed out (limit 20s)")
	if len(r.Lines) == 0 || r.Facts[FactBad] == nil || r.Facts[FactComponents] == nil {
		t.Errorf("no evidence: %+v", r)
	}
	want(t, run(t, FelixReady, h, felixAt(t, says(503, hang))), "", probe.Fail, "FelixStartup reporting non-ready")
	want(t, run(t, FelixLive, h, felixAt(t, says(503, ""))), "", probe.Fail, "without saying why")
	want(t, run(t, FelixLive, h, felixAt(t, says(204, ""))), "", probe.OK, "204")
	want(t, run(t, FelixLive, h, felixAt(t, says(200, "hello"))), "", probe.Warn, "something else listens")
	want(t, run(t, FelixLive, h, felixAt(t, says(404, "no"))), "", probe.Warn, "something else listens")

	nobody := felixAt(t, nil)
	nobody.Host = "felix.invalid"
	want(t, run(t, FelixLive, h, nobody), "", probe.Fail, "does not resolve")
}

func TestFelixRefusedAndSilent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2 and /proc/net/tcp")
	}
	h := node(t, nil)
	h.Proc = "/proc"
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := int(netip.MustParseAddrPort(l.Addr().String()).Port())
	at := probe.Target{Kind: probe.KindFelix, Host: "localhost", Port: port}
	want(t, run(t, FelixLive, h, at), "", probe.Fail, "127.0.0.1", "refused", "while something listens on 127.0.0.2:")
	at.Host = "127.0.0.2" // accepts and stays silent
	want(t, run(t, FelixLive, h, at), "", probe.Fail, "no answer", felixWait.String())
	l.Close()
	r := want(t, run(t, FelixLive, h, at), "", probe.Fail, "refused", "on no other address")
	if r.Facts.Str(FactReason) != "refused" {
		t.Errorf("%+v", r.Facts)
	}
}

func TestFelixForeignLocalhost(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"etc/hosts": "# by hand\n192.0.2.7 localhost # oops\n"})
	h.Proc = "/proc"
	got := run(t, FelixLive, h, felixAt(t, says(204, "")))
	r := want(t, got, "", probe.Fail, "localhost leads to 192.0.2.7")
	if r.Facts.Str(FactReason) != "foreign-address" {
		t.Errorf("%+v", r.Facts)
	}
	want(t, got, "", probe.OK, "204 from 127.0.0.1") // told apart from a Felix that is down
}

// The kinds of plan that say what a node's BIRD should be like.
func self(addr string) probe.Target {
	return probe.Target{Kind: probe.KindSelf, Name: "n", Addr: netip.MustParseAddr(addr)}
}

func backend(name string) probe.Target { return probe.Target{Kind: probe.KindBackend, Name: name} }

func TestBird(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/calico/ipam.lock": ""})
	birdtest.Serve(t, filepath.Join(h.Root, "run/calico/bird.ctl"), "../bird/testdata/bird-1.6.8-restarting.txt")
	v4, v6 := "/run/calico/bird.ctl", "/run/calico/bird6.ctl"
	got := run(t, BirdSocket, h, backend("bird"), self("10.0.0.1"), self("fd00::1"))
	want(t, got, v4, probe.OK, "BIRD 1.6.8 answers, router ID 10.0.0.1")
	want(t, got, v6, probe.Fail, "no such socket")
	want(t, run(t, BirdSocket, h, backend("bird"), self("10.0.0.1")), v6, probe.Skip, "no IPv6 address")
	want(t, run(t, BirdSocket, h), v6, probe.Unknown, "not known")

	got = run(t, BGPSession, h, backend("bird"), self("10.0.0.1"))
	r := want(t, got, "127.0.0.2", probe.OK, "Established", "1 routes taken")
	if r.Facts.Str(FactPeer) != "127.0.0.2" || r.Facts.Str(FactSource) != "127.0.0.1" {
		t.Errorf("%+v", r.Facts)
	}
	r = want(t, got, "127.0.0.3", probe.Fail, "Connection refused")
	if r.Facts.Str(FactLastError) != "Socket: Connection refused" || len(r.Lines) == 0 {
		t.Errorf("%+v", r)
	}
	want(t, got, "127.0.0.4", probe.Fail, "Passive", "the other end has to dial")
	want(t, got, v4, probe.Warn, "graceful restart", "3 more protocols", "3m5")
	want(t, got, v6, probe.Skip, "no IPv6 address")
}

func TestBird2(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/bird/x": ""}) // not from a container
	birdtest.Serve(t, filepath.Join(h.Root, "run/bird/bird.ctl"), "../bird/testdata/bird-2.0.12.txt")
	got := run(t, BGPSession, h, backend("bird"), self("10.0.0.2"))
	want(t, got, "127.0.0.1", probe.OK, "Established", "0 routes taken, 1 given")
	want(t, got, "/run/bird/bird.ctl", probe.Info, "1 of 2 peers")
}

func TestBirdNotThere(t *testing.T) {
	t.Parallel()
	empty := node(t, map[string]string{"run/x": ""})
	want(t, run(t, BirdSocket, empty, backend("vxlan"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Skip, "vxlan")
	want(t, run(t, BirdSocket, empty, backend("bird"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Fail, "has not started")
	want(t, run(t, BGPSession, empty, backend("bird"), self("10.0.0.1")), "/run/calico/bird.ctl", probe.Unknown, "peers not asked")
	blind := node(t, nil)
	blind.Only = []string{"/etc"}
	want(t, run(t, BirdSocket, blind, backend("bird")), "/run/calico/bird.ctl", probe.Skip, "not visible")

	dead := node(t, map[string]string{"run/calico/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dead.Root, "run/calico/bird.ctl"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	silent := run(t, BirdSocket, dead, backend("bird"))
	want(t, silent, "/run/calico/bird.ctl", probe.Fail, "does not speak within "+birdWait.String())
	l.Close()
	want(t, run(t, BirdSocket, dead, backend("bird")), "/run/calico/bird.ctl", probe.Fail, "nobody listens")
}

func TestNodeSwap(t *testing.T) {
	t.Parallel()
	const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	swap := head + "/dev/sda3                               partition\t2097148\t\t0\t\t-2\n"
	want(t, run(t, NodeSwap, node(t, map[string]string{"proc/swaps": head})), "", probe.OK, "no swap")
	r := want(t, run(t, NodeSwap, node(t, map[string]string{"proc/swaps": swap})), "", probe.Fail, "/dev/sda3")
	if len(r.Lines) != 1 {
		t.Errorf("no evidence: %+v", r)
	}
	for config, s := range map[string]probe.Status{"failSwapOn: false\n": probe.Info, "failSwapOn: true\n": probe.Fail, "kind: x\n": probe.Fail} {
		h := node(t, map[string]string{"proc/swaps": swap, "var/lib/kubelet/config.yaml": config})
		want(t, run(t, NodeSwap, h), "", s, "/dev/sda3")
	}
	want(t, run(t, NodeSwap, node(t, map[string]string{"proc/x": ""})), "", probe.OK, "no swap") // CONFIG_SWAP=n
	want(t, run(t, NodeSwap, &probe.Host{Proc: "/nowhere"}), "", probe.Unknown, "/nowhere")
}

func TestNodeLoad(t *testing.T) {
	t.Parallel()
	stat := "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
	for load, s := range map[string]probe.Status{"0.50": probe.OK, "7.90": probe.OK, "8.00": probe.Warn, "20.00": probe.Fail, "61.32": probe.Fail} {
		h := node(t, map[string]string{
			"proc/loadavg": load + " 1.00 1.00 1/100 1\n", "proc/stat": stat,
			"proc/pressure/cpu": "some avg10=83.50 avg60=1.00 avg300=1.00 total=1\n",
		})
		r := want(t, run(t, NodeLoad, h), "", s, "load "+load+" on 2 CPUs")
		if n, _ := r.Facts.Num(FactCPUPressure); n != 83.5 {
			t.Errorf("pressure %v", r.Facts)
		}
	}
	want(t, run(t, NodeLoad, node(t, map[string]string{"proc/loadavg": "nonsense"})), "", probe.Unknown, "loadavg")
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []*probe.Check{NodePing, PodPing, RouteCanReach} {
		want(t, run(t, c, &probe.Host{}), "", probe.Skip, "known")
	}
}

func TestContainerdNotThere(t *testing.T) {
	t.Parallel()
	empty := node(t, map[string]string{"run/x": ""})
	runs := func(name string) probe.Target { return probe.Target{Kind: probe.KindRuntime, Name: name} }
	want(t, run(t, ContainerdHealth, empty, runs("cri-o://1.34.1")), "", probe.Skip, "cri-o")
	want(t, run(t, ContainerdHealth, empty, runs("containerd://2.4.2")), "", probe.Fail, "no socket")
	want(t, run(t, ContainerdHealth, empty), "", probe.Unknown, "not known")
	blind := node(t, nil)
	blind.Only = []string{"/etc"}
	want(t, run(t, ContainerdHealth, blind, runs("containerd://2.4.2")), "", probe.Skip, "not visible")
}

// TestContainerdSilent wants a daemon that accepts and does not answer named in
// each of its parts, in the time of one call.
func TestContainerdSilent(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/containerd/x": ""})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.Root, "run/containerd/containerd.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	began := time.Now()
	got := run(t, ContainerdHealth, h)
	for _, part := range []string{"version", "health", "cri-status", "tasks"} {
		want(t, got, part, probe.Fail, "no answer within "+callWait.String())
	}
	if took := time.Since(began); took > 2*callWait {
		t.Errorf("the four calls waited for each other: %v", took)
	}
	l.Close()
	want(t, run(t, ContainerdHealth, h), "/run/containerd/containerd.sock", probe.Fail, "nobody listens")
}

func TestRouted(t *testing.T) {
	t.Parallel()
	way := path{device: "eth0", source: netip.MustParseAddr("172.17.73.65"), match: netip.MustParsePrefix("0.0.0.0/0"), proto: "static"}
	pod := probe.Target{Kind: probe.KindPod, Addr: netip.MustParseAddr("10.244.1.2")}
	peer := probe.Target{Kind: probe.KindNode, Addr: netip.MustParseAddr("172.17.73.66")}
	if r := routed(pod, way, []probe.Target{self("10.0.0.66")}); r.Status != probe.Info || !strings.Contains(r.Saw, "only the default route") {
		t.Errorf("%+v", r)
	}
	if r := routed(peer, way, []probe.Target{self("10.0.0.66")}); r.Status != probe.Info || !strings.Contains(r.Saw, "Calico registered 10.0.0.66") {
		t.Errorf("the wrong NIC: %+v", r)
	}
	if r := routed(peer, way, []probe.Target{self("172.17.73.65"), self("fd00::1")}); r.Status != probe.OK {
		t.Errorf("%+v", r)
	}
}

func ExampleAll() {
	fmt.Println(All()[0].ID, "-", All()[0].Asks)
	// Output: felix-live - does Felix answer its liveness port?
}
