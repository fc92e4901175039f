//go:build e2e

package drops

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// The test's own namespace is a node, with a pod at cali0. Behind a router is another node. Addresses end in the same
// number in both families.
const furniture = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/netns
for n in router far pod; do ip netns add $n; ip -n $n link set lo up; ip netns exec $n sleep 60 & done
ip link set lo up
ip link add eth0 type veth peer name near netns router
ip -n router link add far type veth peer name eth0 netns far
ip link add cali0 type veth peer name eth0 netns pod
ip addr add 10.9.0.1/24 dev eth0; ip addr add fd09::1/64 dev eth0 nodad
ip -n router addr add 10.9.0.9/24 dev near; ip -n router addr add fd09::9/64 dev near nodad
ip -n router addr add 10.9.1.9/24 dev far; ip -n router addr add fd09:1::9/64 dev far nodad
ip -n far addr add 10.9.1.2/24 dev eth0; ip -n far addr add fd09:1::2/64 dev eth0 nodad
ip -n far addr add 10.9.1.3/24 dev eth0; ip -n far addr add fd09:1::3/64 dev eth0 nodad
ip -n pod addr add 10.244.1.5/32 dev eth0; ip -n pod addr add fd44::5/128 dev eth0 nodad
ip link set eth0 up; ip link set cali0 up; ip -n pod link set eth0 up
ip -n router link set near up; ip -n router link set far up; ip -n far link set eth0 up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.cali0.proxy_arp=1 net.ipv4.neigh.cali0.proxy_delay=0
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip addr add fe80::1/64 dev cali0 nodad
ip route add 10.244.1.5 dev cali0; ip -6 route add fd44::5 dev cali0
ip -n pod route add 169.254.1.1 dev eth0; ip -n pod route add default via 169.254.1.1
ip -n pod -6 route add default via fe80::1 dev eth0
ip route add default via 10.9.0.9; ip -6 route add default via fd09::9
ip -n far route add default via 10.9.1.9; ip -n far -6 route add default via fd09:1::9
ip -n router route add 10.244.1.0/24 via 10.9.0.1; ip -n router -6 route add fd44::/64 via fd09::1
`

// The addresses.
var (
	farNode, farNode6   = netip.MustParseAddr("10.9.1.2"), netip.MustParseAddr("fd09:1::2")
	farFine, farFine6   = netip.MustParseAddr("10.9.1.3"), netip.MustParseAddr("fd09:1::3")
	localPod, localPod6 = netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd44::5")
)

// lab is the set-up, and the search in it.
type lab struct {
	t      *testing.T
	spaces map[string]Space
}

// open creates it; false in the parent of the process that has it.
func open(t *testing.T) (*lab, bool) {
	t.Helper()
	if !nstest.Enter(t, "") {
		return nil, false
	}
	host := &probe.Host{Root: "/", Proc: "/proc"}
	l := &lab{t, map[string]Space{Node: {Name: Node, Host: host}}}
	l.do(furniture)
	for _, name := range []string{"pod", "far", "router"} {
		out := must.Get(exec.CommandContext(t.Context(), "ip", "netns", "pids", name).Output())(t)
		pid := must.Get(strconv.Atoi(strings.Fields(string(out))[0]))(t)
		view := must.Get(netns.OfProcess(host, pid))(t)
		t.Cleanup(view.Close)
		l.spaces[name] = Space{Name: name, Host: host, View: view}
	}
	l.eventually(func() bool { return l.answers(farFine6) && l.answers(localPod6) && l.answers(farNode) })
	l.eventually(func() bool {
		sent, err := burst(t.Context(), l.spaces["pod"], farFine, Shape{}, 1)
		return err == nil && sent.Lost == 0
	})
	return l, true
}

func (l *lab) do(script string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), "sh", "-ec", script)
	cmd.WaitDelay = time.Second // the pods' programs hold its output open
	if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		l.t.Fatalf("%v: %s", err, out)
	}
}

func (l *lab) answers(a netip.Addr) bool {
	sent, err := burst(l.t.Context(), l.spaces[Node], a, Shape{}, 1)
	return err == nil && sent.Lost == 0
}

func (l *lab) eventually(is func() bool) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatal("it does not come about")
		}
	}
}

// A way is one way to lose a packet, and the expected result.
type way struct {
	name   string
	script string
	// begin does what a script cannot.
	begin  func(l *lab)
	from   string // "" = the node
	to     netip.Addr
	fine   netip.Addr // unless the usual one
	shape  Shape
	count  []string // in addition to the node's own namespace
	kind   string   // "" = not found by counters
	where  string   // "" = the node
	says   string
	answer string // received instead
	gate   bool   // also in the short form
}

// noted is a row of the table in the documentation.
func (w way) noted(d Death) string {
	where := d.Where
	if where == "far" || where == "router" {
		where = "the other end"
	}
	if where == "pod" {
		where = "the pod"
	}
	by := map[string]string{byCounter: "counter", byKernel: "the kernel's own answer"}[d.By]
	return fmt.Sprintf("| %s | %s | %s | %s |", w.name, where, by, strings.ReplaceAll(d.Place, "|", "/"))
}

// ask runs the search.
func (l *lab) ask(w way) Found {
	l.t.Helper()
	q := Question{From: l.spaces[Node], To: w.to, Shape: w.shape, Fine: farFine, Count: []Space{l.spaces[Node]}}
	if !q.To.IsValid() {
		q.To = farNode
	}
	if q.To.Is6() {
		q.Fine = farFine6
	}
	if w.fine.IsValid() {
		q.Fine = w.fine
	}
	if w.from == "pod" {
		q.From, q.Pod = l.spaces["pod"], localPod
		if q.To.Is6() {
			q.Pod = localPod6
		}
	}
	for _, name := range w.count {
		q.Count = append(q.Count, l.spaces[name])
	}
	// Ping first, like a first look does, so that unanswered neighbours are looked up.
	if _, err := burst(l.t.Context(), q.From, q.To, q.Shape, 2); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
	defer cancel()
	found, err := Search(ctx, q)
	if err != nil || found.Unread != nil {
		l.t.Fatalf("%v, %v", err, found.Unread)
	}
	return found
}

// rowsIn is the environment variable with the folder where each test leaves its row of the table in docs/drops.md.
const rowsIn = "DROPS_ROWS"

// TestRealWays creates each way to lose a packet, and checks the named place. The results are the table in
// docs/drops.md, which DROPS=write writes.
func TestRealWays(t *testing.T) {
	dir := os.Getenv(rowsIn)
	if dir == "" {
		dir = t.TempDir()
		t.Setenv(rowsIn, dir)
	}
	t.Run("each", func(t *testing.T) {
		for i, w := range ways {
			if testing.Short() && !w.gate {
				continue
			}
			t.Run(strings.ReplaceAll(w.name, " ", "-"), func(t *testing.T) { oneWay(t, w, filepath.Join(dir, strconv.Itoa(i))) })
		}
	})
	if os.Getenv("IN_NAMESPACE_OF") == "" && !t.Failed() {
		recorded(t, dir)
	}
}

func oneWay(t *testing.T, w way, file string) {
	t.Parallel()
	l, inside := open(t)
	if !inside {
		return
	}
	l.do(w.script)
	if w.begin != nil {
		w.begin(l)
	}
	if err := os.WriteFile(file, []byte(judge(t, w, l.ask(w))), 0o600); err != nil {
		t.Error(err)
	}
}

// recorded compares the table in the documentation with the results, or writes it.
func recorded(t *testing.T, dir string) {
	t.Helper()
	const path, begins = "../../docs/drops.md", "| --- | --- | --- | --- |\n"
	text := must.Get(os.ReadFile(path))(t)
	head, table, _ := strings.Cut(string(text), begins)
	var rows strings.Builder
	for i, w := range ways {
		row, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil { // not run now
			continue
		}
		rows.WriteString(string(row) + "\n")
		if os.Getenv("DROPS") != "write" && !strings.Contains(table, string(row)+"\n") {
			t.Errorf("docs/drops.md has not the row of %q, which DROPS=write writes:\n%s", w.name, row)
		}
	}
	if os.Getenv("DROPS") == "write" {
		if err := os.WriteFile(path, []byte(head+begins+rows.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// judge compares the result with the expected one, and returns the row of the table.
func judge(t *testing.T, w way, found Found) string {
	t.Helper()
	switch {
	case w.answer != "":
		if found.Lost > 0 || !strings.Contains(found.Answer, w.answer) {
			t.Errorf("got %+v, want the answer %q", found, w.answer)
		}
		return fmt.Sprintf("| %s | | the answer | %s |", w.name, found.Answer)
	case found.Lost < found.Packets || found.Packets < sizes[0][0]+sizes[1][0]:
		t.Errorf("%d of %d are lost", found.Lost, found.Packets)
	case w.kind == "":
		if len(found.Deaths) > 0 || !found.Left {
			t.Errorf("got %+v, want none, and that they left", found)
		}
		return fmt.Sprintf("| %s | beyond the node | not by counters | they leave by %s, and nothing here counts them as lost |", w.name,
			found.Device)
	case len(found.Deaths) == 0:
		t.Errorf("nothing is found: %+v", found)
	default:
		d := found.Deaths[0]
		where := w.where
		if where == "" {
			where = Node
		}
		if d.Kind != w.kind || d.Where != where || !strings.Contains(d.Place, w.says) {
			t.Errorf("got %+v, want a %s of %s with %q", found.Deaths, w.kind, where, w.says)
		}
		return w.noted(d)
	}
	return ""
}

// TestRealNoFalsePlace searches repeatedly, while other traffic's losses grow counters of every kind. No place may be
// named for a loss beyond the node, or for an answering target.
func TestRealNoFalsePlace(t *testing.T) {
	t.Parallel()
	l, inside := open(t)
	if !inside {
		return
	}
	runs := 50
	if testing.Short() {
		runs = 2
	}
	l.do(nftDrop("ip netns exec router ", "ip", "forward", "ip saddr 10.244.0.0/16 ip daddr 10.9.1.2 drop"))
	l.do(nftDrop("", "inet", "input", "udp dport 9 counter drop") + "nft add rule inet t c udp dport 10 counter drop\n" +
		"nft add rule inet t c udp dport 11 counter reject\niptables-legacy -A OUTPUT -d 10.9.1.2 -p udp --dport 12 -j DROP\n" +
		"ip route add blackhole 10.98.0.0/16")
	ctx, cancel := context.WithCancel(t.Context())
	var noise sync.WaitGroup
	t.Cleanup(func() { cancel(); noise.Wait() })
	for _, to := range []string{"127.0.0.1:9", "127.0.0.1:10", "127.0.0.1:11", "10.9.1.2:12", "127.0.0.1:13",
		"10.98.0.1:1"} {
		noise.Go(func() { others(ctx, to) })
	}
	for n := range runs {
		beyond := l.ask(way{from: "pod"})
		if beyond.Lost != beyond.Packets || len(beyond.Deaths) > 0 {
			t.Errorf("run %d, lost beyond the node: %+v", n, beyond)
		}
		if well := l.ask(way{}); well.Lost > 0 || len(well.Deaths) > 0 {
			t.Errorf("run %d, nothing is lost: %+v", n, well)
		}
	}
}

// others send datagrams that are dropped, in bursts of about our size and pace.
func others(ctx context.Context, to string) {
	conn, err := net.Dial("udp", to)
	if err != nil {
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		for range rand.IntN(30) {
			_, _ = conn.Write([]byte("x")) // it is dropped
		}
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
	}
}

// crowd opens a listening socket on the other node at TCP port 7000 with the shortest queue, fills it, and accepts
// nothing.
func crowd(l *lab) {
	l.t.Helper()
	if err := l.spaces["far"].Do(func(*probe.Host) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			l.t.Cleanup(func() { unix.Close(fd) })
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: 7000})
		}
		if err == nil {
			err = unix.Listen(fd, 0)
		}
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
	for range 3 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			l.t.Fatal(err)
		}
		_ = unix.Connect(fd, &unix.SockaddrInet4{Port: 7000, Addr: farNode.As4()}) // in progress
		time.Sleep(100 * time.Millisecond)
		if socketError(fd) == nil && connected(fd) {
			l.t.Cleanup(func() { unix.Close(fd) })
		} else { // it would be retried, and counted
			unix.Close(fd)
		}
	}
}

func connected(fd int) bool {
	_, err := unix.Getpeername(fd)
	return err == nil
}

// guard opens a listening socket with a password on the other node at TCP port 7001.
func guard(l *lab) {
	l.t.Helper()
	if err := l.spaces["far"].Do(func(*probe.Host) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		l.t.Cleanup(func() { unix.Close(fd) })
		key := unix.TCPMD5Sig{Keylen: 4, Addr: unix.SockaddrStorage{Family: unix.AF_INET}}
		copy(key.Addr.Data[2:], []byte{10, 9, 0, 1})
		copy(key.Key[:], "pass")
		return errors.Join(unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key),
			unix.Bind(fd, &unix.SockaddrInet4{Port: 7001}), unix.Listen(fd, 5))
	}); err != nil {
		l.t.Fatal(err)
	}
}

// fillConntrack leaves no room for new connections: assured entries are not evicted.
func fillConntrack(l *lab) {
	l.t.Helper()
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		l.t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || most > 1<<19 {
		l.t.Skipf("%d connections are too many for a test", most)
	}
	end := func(at uint32, port uint16) []byte {
		addr := binary.BigEndian.AppendUint32(nil, at)
		return slices.Concat(attr(nl.CTA_TUPLE_IP|nested, attr(nl.CTA_IP_V4_SRC, addr), attr(nl.CTA_IP_V4_DST, addr)),
			attr(nl.CTA_TUPLE_PROTO|nested, attr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_UDP}),
				attr(nl.CTA_PROTO_SRC_PORT, binary.BigEndian.AppendUint16(nil, port)),
				attr(nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, port))))
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
	if err != nil {
		l.t.Fatal(err)
	}
	defer unix.Close(fd)
	status := binary.BigEndian.AppendUint32(nil, 1<<1|1<<2|1<<3) // IPS_SEEN_REPLY, IPS_ASSURED, IPS_CONFIRMED
	var batch []byte
	for i := range most + 1000 {
		tuple := end(0x7f020000+uint32(i>>16), uint16(i))
		body := slices.Concat([]byte{unix.AF_INET, 0, 0, 0}, attr(nl.CTA_TUPLE_ORIG|nested, tuple),
			attr(nl.CTA_TUPLE_REPLY|nested, tuple), attr(nl.CTA_STATUS, status),
			attr(nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, 300)))
		head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		head = binary.NativeEndian.AppendUint16(head, unix.NFNL_SUBSYS_CTNETLINK<<8) // IPCTNL_MSG_CT_NEW
		head = binary.NativeEndian.AppendUint16(head, unix.NLM_F_REQUEST|unix.NLM_F_CREATE)
		batch = slices.Concat(batch, head, make([]byte, 8), body)
		if len(batch) > 30_000 {
			if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
				l.t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

const nested = unix.NLA_F_NESTED

// attr is a netlink attribute.
func attr(kind uint16, parts ...[]byte) []byte {
	data := slices.Concat(parts...)
	out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	out = append(binary.NativeEndian.AppendUint16(out, kind), data...)
	return append(out, make([]byte, -len(out)&3)...)
}
