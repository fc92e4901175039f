//go:build e2e

package skbdrop

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// three are a pod, its node, which the test is in, and a host beyond that, connected like with Calico: eth0 of the pod
// and cali12 of the node are one veth pair, eth0 of the node and eth0 of the other host another.
const three = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip netns add pod
ip netns add far
ip link set lo up
ip -n pod link set lo up
ip -n far link set lo up
ip link add cali12 address 02:00:00:00:00:01 type veth peer name eth0 address 02:00:00:00:00:02 netns pod
ip link add eth0 address 02:00:00:00:00:03 type veth peer name eth0 address 02:00:00:00:00:04 netns far
ip addr add 10.65.0.1/24 dev cali12
ip addr add fd65::1/64 dev cali12 nodad
ip addr add 192.0.2.1/24 dev eth0
ip addr add fd02::1/64 dev eth0 nodad
ip link set cali12 up
ip link set eth0 up
ip -n pod addr add 10.65.0.2/24 dev eth0
ip -n pod addr add fd65::2/64 dev eth0 nodad
ip -n pod link set eth0 up
ip -n pod route add default via 10.65.0.1
ip -n pod route add default via fd65::1
ip -n far addr add 192.0.2.2/24 dev eth0
ip -n far addr add fd02::2/64 dev eth0 nodad
ip -n far link set eth0 up
ip -n far route add default via 192.0.2.1
ip -n far route add default via fd02::1
ip neigh add 10.65.0.2 lladdr 02:00:00:00:00:02 dev cali12
ip neigh add fd65::2 lladdr 02:00:00:00:00:02 dev cali12
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:04 dev eth0
ip neigh add fd02::2 lladdr 02:00:00:00:00:04 dev eth0
ip -n pod neigh add 10.65.0.1 lladdr 02:00:00:00:00:01 dev eth0
ip -n pod neigh add fd65::1 lladdr 02:00:00:00:00:01 dev eth0
ip -n far neigh add 192.0.2.1 lladdr 02:00:00:00:00:03 dev eth0
ip -n far neigh add fd02::1 lladdr 02:00:00:00:00:03 dev eth0
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
`

// fate is a way to lose a packet.
type fate struct {
	name  string
	does  string // for the table
	setup string // commands after three; a word and a colon at the start names the namespace, "pod:"
	prep  func(*testing.T)
	from  string // the namespace, "" = the node
	to    string // an address, with a port for TCP
	echo  echo
	wait  time.Duration // after sending

	reason, function, hook, at string // the expected end, alternatives separated by "|"; no reason = it arrives
	answer, wrapped            bool
	unseen                     string // it is lost without a visible drop: the reason instead
}

// echo has the special properties of an echo.
type echo struct {
	corrupt bool
	size    int
	ttl     int
}

// in runs f in a namespace of the test.
func in(t testing.TB, ns string, f func()) {
	t.Helper()
	if ns == "" {
		f()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with it
		h, err := netns.GetFromName(ns)
		if err == nil {
			err = netns.Set(h)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("entering %s: %v", ns, err)
	}
}

func commands(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if ns, rest, is := strings.Cut(line, ": "); is && len(ns) == 3 {
			line = "ip netns exec " + ns + " " + rest
		}
		if line == "" {
			continue
		}
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

const ourID, packets = 0x1721, 3

// send sends echoes with our ID, or connects from a port that it adds to the trace.
func (f fate) send(t *testing.T, trace *Trace) {
	t.Helper()
	to, err := netip.ParseAddrPort(f.to)
	if err != nil {
		f.echoes(t, netip.MustParseAddr(f.to))
		return
	}
	d := net.Dialer{Timeout: 500 * time.Millisecond, Control: trace.Control}
	if c, err := d.DialContext(t.Context(), "tcp", to.String()); err == nil {
		c.Close()
	}
}

func (f fate) echoes(t *testing.T, to netip.Addr) {
	network, kind := "ip4:icmp", icmp.Type(ipv4.ICMPTypeEcho)
	if to.Is6() {
		network, kind = "ip6:ipv6-icmp", ipv6.ICMPTypeEchoRequest
	}
	c, err := icmp.ListenPacket(network, "")
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if f.echo.ttl > 0 {
		if err := c.IPv4PacketConn().SetTTL(f.echo.ttl); err != nil {
			t.Error(err)
		}
	}
	for i := range packets {
		body := &icmp.Echo{ID: ourID, Seq: i, Data: make([]byte, max(56, f.echo.size))}
		b, err := (&icmp.Message{Type: kind, Body: body}).Marshal(nil)
		if err != nil {
			t.Error(err)
			return
		}
		if f.echo.corrupt {
			b[2] ^= 0xff
		}
		_, _ = c.WriteTo(b, &net.IPAddr{IP: to.AsSlice()}) // some fates expect unsendable packets
	}
}

// TestFates loses packets in every way, and checks reason, function, hook and interface in this kernel's words. For
// packets that arrive it expects no drop. With TRACED=write it writes the table of docs/drops-trace.md.
func TestFates(t *testing.T) {
	rows := os.Getenv("TRACED_ROWS")
	if rows == "" { // not in a namespace
		rows = t.TempDir()
		t.Setenv("TRACED_ROWS", rows)
	}
	for _, f := range fates {
		t.Run(f.name, func(t *testing.T) {
			if !nstest.Enter(t, three) {
				return
			}
			commands(t, f.setup)
			if f.prep != nil {
				f.prep(t)
			}
			seen := f.judge(t, f.happen(t))
			row := fmt.Sprintf("| %s | %s |\n", f.does, seen)
			if err := os.WriteFile(filepath.Join(rows, f.name), []byte(row), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	if os.Getenv("TRACED") == "write" && os.Getenv("IN_NAMESPACE_OF") == "" {
		write(t, rows)
	}
}

// write inserts the rows into the page.
func write(t *testing.T, rows string) {
	t.Helper()
	const page, begin, end = "../../docs/drops-trace.md", "<!-- fates -->\n", "<!-- /fates -->\n"
	text := must.Get(os.ReadFile(page))(t)
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	var name unix.Utsname
	must.Do(t, unix.Uname(&name))
	release, _, _ := strings.Cut(string(name.Release[:]), "-")
	table := "| lost by | reason, by Linux " + strings.TrimRight(release, "\x00") +
		" | function | hook | interface |\n|---|---|---|---|---|\n"
	for _, f := range fates {
		if row, err := os.ReadFile(filepath.Join(rows, f.name)); err == nil && f.does != "" {
			table += string(row)
		}
	}
	must.Do(t, os.WriteFile(page, []byte(head+begin+table+end+tail), 0o600))
}

// happen sends the packets of a fate and returns their events.
func (f fate) happen(t *testing.T) []Path {
	t.Helper()
	filter := Filter{Protocol: ICMP, Numbers: []uint16{ourID}, VXLAN: 4789}
	if to, err := netip.ParseAddrPort(f.to); err == nil {
		filter.Protocol, filter.Numbers, filter.Addrs = TCP, nil, []netip.Addr{to.Addr()}
	} else {
		filter.Addrs = []netip.Addr{netip.MustParseAddr(f.to)}
	}
	trace, err := Open(filter)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 1
	if f.wait > 0 {
		// A timer's softirq runs on top of any process. In some virtual machines no program runs on top of the
		// hypervisor's own process, so a single timer may stay unseen.
		rounds = 2
	}
	for range rounds {
		in(t, f.from, func() { f.send(t, trace) })
		time.Sleep(f.wait)
	}
	events, gaps, err := trace.End()
	if err != nil || gaps != (Gaps{}) {
		t.Errorf("not all is shown: %+v, %v", gaps, err)
	}
	return Paths(events, trace.Ports()...)
}

// judge compares the events with the expected ones, and describes them for the table.
func (f fate) judge(t *testing.T, paths []Path) string {
	t.Helper()
	var drops []Path
	for _, p := range paths {
		if p.End().Kind == Dropped {
			drops = append(drops, p)
		}
	}
	if f.reason == "" {
		if len(drops) > 0 {
			t.Errorf("nothing is to be dropped: %+v", drops)
		}
		return "no drop | | | " + f.unseen
	}
	if len(drops) == 0 {
		t.Fatalf("no drop was seen: %+v", paths)
	}
	p := drops[0]
	e := p.End()
	function := e.Function()
	wanted := func(got, want string) bool { return slices.Contains(strings.Split(want, "|"), got) }
	if !wanted(e.Reason, f.reason) || !wanted(function, f.function) || e.Hook() != f.hook || e.Interface != f.at ||
		e.Wrapped != f.wrapped || (p.Role == Answer) != f.answer || e.Namespace == 0 {
		t.Errorf("%+v, want %s by %s in %q at %s", p, f.reason, f.function, f.hook, f.at)
	}
	if len(p.Steps) > 1 && p.Steps[0].Kind != Left {
		t.Errorf("it does not begin by leaving: %+v", p.Steps)
	}
	return fmt.Sprintf("`%s` | `%s` | %s | `%s`", e.Reason, function, f.hook, e.Interface)
}
