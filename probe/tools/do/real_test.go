//go:build e2e

package do

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// A node, a router, and another behind it; 10.50.0.0/16 loops between those two.
const world = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip netns add router
ip netns add far
ip link set lo up
ip link add eth0 type veth peer name near netns router
ip -n router link add far type veth peer name eth0 netns far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip -n router addr add 10.9.0.9/24 dev near
ip -n router addr add fd09::9/64 dev near nodad
ip -n router link set near up
ip -n router addr add 10.9.1.9/24 dev far
ip -n router link set far up mtu 1400
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
ip netns exec far sysctl -qw net.ipv4.ip_forward=1
ip -n far addr add 10.9.1.2/24 dev eth0
ip -n far link set lo up
ip -n far link set eth0 up mtu 1400
ip -n far route add default via 10.9.1.9
ip -n router route add 10.50.0.0/16 via 10.9.1.2
ip route add default via 10.9.0.9
ip route add 10.244.1.0/26 via 10.9.0.9 proto bird mtu 1380
ip route add 10.244.2.0/26 proto 80 nexthop via 10.9.0.9 nexthop via 10.9.0.8
ip route add blackhole 10.244.3.0/26 proto bird
ip route add unreachable 10.244.4.0/26
ip route add prohibit 10.244.5.0/26
ip -6 route add fd00:244::/64 via fd09::9 proto bird
nft add table inet t
nft add chain inet t out { type filter hook output priority 0 ; }
nft add rule inet t out ip daddr 10.9.1.77 drop
nft add rule inet t out ip daddr 10.9.1.78 reject with icmp type admin-prohibited
`

func TestRealPing(t *testing.T) {
	if !nstest.Enter(t, world) {
		return
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // IPv6 needs a moment on a new link
		if r, _ := use(t.Context(), t, "/", "ping", "-c", "1", "fd09::9"); r.Status == probe.OK {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(r.Saw)
		}
	}
	for line, want := range map[string]struct {
		status probe.Status
		saw    string
	}{
		"10.9.1.2":           {probe.OK, "all came back"},
		"fd09::9":            {probe.OK, "all came back"},
		"-s 1400 10.9.1.2":   {probe.OK, "of 1400 bytes to 10.9.1.2, and all came back"},
		"-s 1401 10.9.1.2":   {probe.Fail, "too big, and must not be fragmented): 1400 bytes would fit"},
		"-s 1501 10.9.1.2":   {probe.Fail, "larger than the MTU of the outgoing interface"},
		"10.50.0.1":          {probe.Fail, "the packet was in a routing loop"},
		"10.60.0.1":          {probe.Fail, "destination unreachable from 10.9.0.9, code 0 (network unreachable)"},
		"10.244.3.1":         {probe.Fail, "a blackhole route discards it"},
		"10.244.4.1":         {probe.Fail, "an unreachable route"},
		"10.244.5.1":         {probe.Fail, "a prohibit route"},
		"10.9.1.77":          {probe.Fail, "rejected locally"},
		"10.9.0.66 -W 100ms": {probe.Fail, "no answer within 100ms"},
		"fd77::1":            {probe.Fail, "the sender has no route to it"},
	} {
		r, out := use(t.Context(), t, "/", "ping", append([]string{"-c", "2", "-i", "20ms"}, strings.Fields(line)...)...)
		wants(t, r, want.status, want.saw)
		if !strings.Contains(out, ": 2 packets sent, ") || strings.Count(out, "\n") != 3 {
			t.Errorf("%s:\n%s", line, out)
		}
	}
	// Stopped, it prints the sum so far.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r, out := use(ctx, t, "/", "ping", "-c", "0", "-i", "20ms", "10.9.1.2")
	wants(t, r, probe.OK, "all came back")
	if !strings.Contains(out, ", 0% lost, ") {
		t.Error(out)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, _ = use(ctx, t, "/", "ping", "10.9.0.66")
	wants(t, r, probe.Unknown, "stopped before anything about 10.9.0.66 was known")
}

func TestRealDial(t *testing.T) {
	if !nstest.Enter(t, world) {
		return
	}
	for line, want := range map[string]struct {
		status probe.Status
		saw    string
	}{
		"10.9.1.2:80":            {probe.Fail, "refused"},
		"10.9.1.78:80":           {probe.Fail, "administratively prohibited"},
		"10.244.3.1:80":          {probe.Fail, "blackhole"},
		"-t 200ms 10.9.1.77:80":  {probe.Fail, "10.9.1.77"},
		"-u 10.9.1.2:80":         {probe.Fail, "refused by ICMP"},
		"-u 10.244.4.1:80":       {probe.Fail, "cannot be reached"},
		"[fd77::1]:80":           {probe.Fail, "no route to it"},
		"-t 100ms 10.9.0.66:80":  {probe.Fail, "no answer from 10.9.0.66:80 within 100ms"},
		"-t 100ms [fd09::66]:80": {probe.Fail, "no answer from [fd09::66]:80 within 100ms"},
	} {
		r, _ := use(t.Context(), t, "/", "dial", strings.Fields(line)...)
		wants(t, r, want.status, want.saw)
	}
}

// TestRealMetadata requests credentials like a cloud serves them, by address and by name.
func TestRealMetadata(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up\nip addr add 169.254.169.254/32 dev lo\n") {
		return
	}
	l := must.Get(net.Listen("tcp", "169.254.169.254:80"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("verysecret"))
	})}
	go func() { _ = server.Serve(l) }() // until the process ends
	root := files(t, map[string]string{"etc/hosts": "169.254.169.254 metadata.test\n"})
	for _, to := range []string{"169.254.169.254:80", "metadata.test:80", "[::ffff:169.254.169.254]:80"} {
		r, out := use(t.Context(), t, root, "dial", "--http", "/latest/meta-data/iam/security-credentials/node", to)
		wants(t, r, probe.OK, "answers 200 OK")
		if strings.Contains(out+r.Saw, "verysecret") || !strings.Contains(out, "Content-Length") ||
			!strings.Contains(out, "10 bytes of body are not shown") {
			t.Errorf("%s:\n%s", to, out)
		}
	}
}

func TestRealRoutes(t *testing.T) {
	if !nstest.Enter(t, world) {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // makes the loopback counters grow
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for line, want := range map[string]struct {
		status probe.Status
		saw    string
		out    string
	}{
		"get 10.244.1.2": {probe.OK,
			"goes by eth0 through 10.9.0.9 from 10.9.0.1, by the route 10.244.1.0/26 created by bird",
			"by the route: 10.244.1.0/26 via 10.9.0.9 dev eth0 proto bird mtu 1380"},
		"get fd00:244::7": {probe.OK, "through fd09::9",
			"fd00:244::/64 via fd09::9 dev eth0 proto bird"},
		"get 10.9.0.1":                           {probe.OK, "an address of this node", "local 10.9.0.1 dev lo"},
		"get 10.244.3.1":                         {probe.Fail, "blackhole", ""},
		"get 10.244.4.1":                         {probe.Fail, "unreachable", ""},
		"get 10.244.5.1":                         {probe.Fail, "prohibit", ""},
		"get fd77::1":                            {probe.Fail, "no route to fd77::1", ""},
		"get 10.9.1.2 from 10.9.0.1":             {probe.OK, "from 10.9.0.1", "default via 10.9.0.9"},
		"get 10.9.1.2 from 10.3.0.1":             {probe.Fail, "10.3.0.1 is not an address of this node", ""},
		"get 10.9.0.1 from 10.9.0.9 iif eth0":    {probe.OK, "an address of this node", ""},
		"get 10.9.0.1 from 10.9.0.9 iif nothing": {probe.Fail, "no interface nothing", ""},
		"": {probe.OK, "routes",
			"10.244.2.0/26 hop 1 via 10.9.0.9 dev eth0 hop 2 via 10.9.0.8 dev eth0 proto felix\n"},
		"proto bird":               {probe.OK, "3 routes", "blackhole 10.244.3.0/26 proto bird\n"},
		"10.244.0.0/16 proto bird": {probe.OK, "2 routes", ""},
		"default":                  {probe.OK, "1 route", "default via 10.9.0.9 dev eth0 proto boot\n"},
		"show 10.244.1.2":          {probe.OK, "2 routes", "default via"},
		"show dev lo table local":  {probe.OK, "routes", "local 127.0.0.1 dev lo"},
		"show proto dhcp":          {probe.Fail, "no such route", ""},
	} {
		r, out := use(t.Context(), t, "/", "route", strings.Fields(line)...)
		wants(t, r, want.status, want.saw)
		if !strings.Contains(out, want.out) {
			t.Errorf("%s: no %q in\n%s", line, want.out, out)
		}
	}
	if out, err := exec.Command("ip", "-6", "route", "add", "default", "via", "fd09::9").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, out := use(t.Context(), t, "/", "route", "default")
	wants(t, r, probe.OK, "2 routes")
	if !strings.HasPrefix(out, "default via 10.9.0.9 dev eth0") ||
		!strings.Contains(out, "\ndefault via fd09::9 dev eth0") {
		t.Error(out)
	}
	r, out = use(t.Context(), t, "/", "route", "::/0")
	wants(t, r, probe.OK, "1 route")
	if !strings.HasPrefix(out, "default via fd09::9") {
		t.Error(out)
	}
	r, out = use(t.Context(), t, "/", "links")
	wants(t, r, probe.OK, "2 interfaces")
	if !strings.Contains(out, "10.9.0.1/24,fd09::1/64") || !strings.Contains(out, "veth") {
		t.Error(out)
	}
	if out, err := exec.Command("ip", "-n", "router", "link", "set", "near", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, out := use(t.Context(), t, "/", "links", "eth0"); !strings.Contains(out, "no-carrier") {
		t.Error(out)
	}
	if out, err := exec.Command("ip", "neigh", "replace", "10.9.0.7", "lladdr", "02:00:00:00:00:07", "dev",
		"eth0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, out = use(t.Context(), t, "/", "neigh", "permanent")
	wants(t, r, probe.OK, "1 neighbour")
	if !strings.Contains(out, "10.9.0.7  eth0    02:00:00:00:00:07  permanent") {
		t.Error(out)
	}
}

// pieces counts what is written to it.
type pieces int

func (p *pieces) Write(b []byte) (int, error) { *p++; return len(b), nil }

// TestRealManyRoutes checks that many routes arrive in few pieces, each of which is an event on the user's connection.
func TestRealManyRoutes(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up\n") {
		return
	}
	var batch strings.Builder
	for i := range 1000 {
		batch.WriteString("route add blackhole 10." + netOf(i) + "/32\n")
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := parsed(t, "route", "show")
	var out pieces
	wants(t, run(t.Context(), &probe.Job{Host: &probe.Host{Root: "/"}, Out: &out}), probe.OK, "1000 routes")
	if out > 20 {
		t.Errorf("%d pieces", out)
	}
}

// TestRealTable has BIRD announce a hundred thousand routes.
func TestRealTable(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up\n") {
		return
	}
	root := must.Get(os.MkdirTemp("", "bird"))(t)
	defer os.RemoveAll(root)
	must.Do(t, os.MkdirAll(filepath.Join(root, "run/calico"), 0o755))
	var config bytes.Buffer
	config.WriteString("router id 10.0.0.1;\nprotocol device { }\nprotocol static { ipv4;\n")
	for i := range 100_000 {
		config.WriteString("route 10." + netOf(i) + "/32 blackhole;\n")
	}
	config.WriteString("}\n")
	file, socket := filepath.Join(root, "bird.conf"), filepath.Join(root, "run/calico/bird.ctl")
	must.Do(t, os.WriteFile(file, config.Bytes(), 0o600))
	cmd := exec.Command(checktest.Part(t, "bird2/usr/sbin/bird"), "-f", "-c", file, "-s", socket)
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if r, out := use(t.Context(), t, root, "bird", "show", "route", "count"); r.Status == probe.OK &&
			strings.Contains(out, "100000 of 100000 routes") {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(r.Saw, out)
		}
	}
	r, out := use(t.Context(), t, root, "bird", "show", "protocols", "dev*")
	wants(t, r, probe.OK, "2 lines")
	if !strings.Contains(out, "device1") {
		t.Error(out)
	}
	r, out = use(t.Context(), t, root, "bird", "show", "route")
	wants(t, r, probe.OK, "lines")
	if n := strings.Count(out, "/32"); n != 100_000 {
		t.Errorf("%d routes of 100000, %s", n, r.Saw)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ = use(ctx, t, root, "bird", "show", "route")
	wants(t, r, probe.Unknown, "stopped")
}

func netOf(i int) string {
	return net.IPv4(0, byte(i>>16), byte(i>>8), byte(i)).String()[2:]
}
