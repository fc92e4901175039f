//go:build e2e

package netns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	podfacts "github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/suite/ask"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	entry "github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// The child's suite. The pod's listener is on its loopback, which is unreachable from outside.
var (
	dials = &probe.Check{
		ID: "dials-pod", From: probe.FromNode, Inside: true, Access: []string{probe.AccessPods},
		Run: func(ctx context.Context, p *probe.Pass) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", "127.0.0.1:7070")
			if err != nil {
				p.Report(probe.Found(probe.Fail, "%s", probe.Reason(err)))
				return
			}
			c.Close()
			p.Report(probe.Found(probe.OK, "connected with %d targets", len(p.Targets)))
		},
	}
	dies = &probe.Check{
		ID: "dies-inside", From: probe.FromPod, Access: []string{probe.AccessPods},
		Run: func(_ context.Context, p *probe.Pass) {
			if p.From == "d/fatal" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			p.Report(probe.Found(probe.OK, "alive"))
		},
	}
	lives = &probe.Check{
		ID: "lives-inside", From: probe.FromPod, Access: []string{probe.AccessPods},
		Limit: time.Hour,
		Run: func(_ context.Context, p *probe.Pass) {
			p.Report(probe.Found(probe.OK, "%s", strings.Join(os.Args[1:], " ")))
		},
	}
	hangs = &probe.Check{
		ID: "hangs-inside", From: probe.FromPod, Access: []string{probe.AccessPods},
		Limit: time.Second,
		Run:   func(context.Context, *probe.Pass) { select {} },
	}
)

func runner() *probe.Runner {
	h := &probe.Host{Root: "/", Proc: "/proc"}
	return &probe.Runner{Suite: append(ask.All(), dials, dies, lives, hangs), Host: h, Version: "test",
		Enter: entry.Entry{Host: h, Args: []string{"session"}}.Run}
}

// TestMain lets the program start again as a probe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "session" {
		if err := runner().Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const cgroups = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/cgroup
mount -t cgroup2 cgroup2 /run/cgroup
ip link set lo up
`

// pod starts a process in its own network namespace, in the cgroup of a pod.
func pod(t *testing.T, name, uid, group, addr string) probe.Target {
	t.Helper()
	target, _ := process(t, name, uid, group, addr)
	return target
}

func process(t *testing.T, name, uid, group, addr string) (target probe.Target, pid string) {
	t.Helper()
	return start(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, name, uid, group, addr)
}

func start(t *testing.T, as *syscall.SysProcAttr, name, uid, group, addr string) (target probe.Target, pid string) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = as
	must.Do(t, cmd.Start())
	dir := filepath.Join("/run/cgroup", group)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()     // killed
		_ = os.Remove(dir) // another process may still be in it
	})
	must.Do(t, os.MkdirAll(dir, 0o755))
	pid = strconv.Itoa(cmd.Process.Pid)
	must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0o644))
	if addr != "" {
		for _, args := range [][]string{{"link", "set", "lo", "up"},
			{"link", "add", "eth0", "type", "veth", "peer", "name", "far"}, {"addr", "add", addr, "dev", "eth0"},
			{"link", "set", "eth0", "up"}} {
			if out, err := exec.Command("nsenter",
				append([]string{"-t", pid, "-n", "ip"}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %v: %v: %s", args, err, out)
			}
		}
		listenAs(t, pid, "127.0.0.1:7070")
	}
	return probe.Target{Kind: probe.KindLocal, Name: name, Addr: netip.MustParseAddr("10.244.0.7"),
		Attrs: map[string]string{probe.AttrUID: uid}}, pid
}

// listenAs accepts TCP connections in a process's network namespace.
func listenAs(t *testing.T, pid, addr string) (l net.Listener) {
	t.Helper()
	ns := must.Get(netns.GetFromPath("/proc/" + pid + "/ns/net"))(t)
	defer ns.Close()
	must.Do(t, entry.Within(ns, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	}))
	t.Cleanup(func() { l.Close() })
	return l
}

// unique returns a pod name that no other run of the test has.
func unique(n int) string { return fmt.Sprintf("0c0ffee%d-0000-4000-8000-%012d", n, os.Getpid()) }

func asked(t *testing.T, c *probe.Check, r *probe.Runner, targets ...probe.Target) []probe.Result {
	t.Helper()
	var got []probe.Result
	r.Run(t.Context(), probe.Plan{Checks: []string{c.ID}, Targets: targets}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	return got
}

func wants(t *testing.T, got []probe.Result, from string, s probe.Status, saw string) {
	t.Helper()
	for _, r := range got {
		if r.From == from && r.Status == s && strings.Contains(r.Saw, saw) {
			return
		}
	}
	t.Errorf("want %s from %q with %q: %+v", s, from, saw, got)
}

// TestInside proves that checks inside run inside: only there a process listens on the loopback.
func TestInside(t *testing.T) {
	if !nstest.Enter(t, cgroups) {
		return
	}
	uid := unique(1)
	web := pod(t, "d/web", uid, "kubepods-besteffort-pod"+strings.ReplaceAll(uid, "-", "_")+".slice", "10.244.0.7/32")
	name := os.Args[0] // an uploaded probe has removed its file by now
	os.Args[0] = "/nowhere/probe"
	t.Cleanup(func() { os.Args[0] = name })
	home := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	var away atomic.Int32
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { // what the program reads below /proc/net must stay the node's
		defer close(watched)
		for watching.Err() == nil {
			if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != home {
				away.Add(1)
			}
		}
	}()
	for range 20 {
		got := asked(t, dials, runner(), web)
		wants(t, got, "", probe.Fail, "refused")
		wants(t, got, "d/web", probe.OK, "connected with 1 targets")
		if len(got) != 2 {
			t.Errorf("%+v", got)
		}
	}
	stop()
	<-watched
	if n := away.Load(); n > 0 {
		t.Errorf("the program itself was seen in another namespace %d times", n)
	}
}

// TestMainThread enters a namespace repeatedly from the main thread's goroutine.
func TestMainThread(t *testing.T) {
	if !nstest.Enter(t, cgroups) {
		return
	}
	uid := unique(2)
	pod(t, "d/web", uid, "pod"+uid, "10.244.0.7/32")
	e := entry.Entry{Host: &probe.Host{Proc: "/proc"}}
	ns := must.Get(entry.Find(e, probe.Target{Name: "d/web", Addr: netip.MustParseAddr("10.244.0.7"),
		Attrs: map[string]string{probe.AttrUID: uid}}))(t)
	defer ns.Close()
	home := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	for range 200 {
		must.Do(t, entry.Within(ns, func() error {
			if syscall.Gettid() == os.Getpid() {
				return errors.New("on the main thread")
			}
			return nil
		}))
	}
	if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != home {
		t.Errorf("at home in %s, now in %s: %v", home, now, err)
	}
}

// TestWrongPods checks that pods that cannot be entered are distinguished, and never entered.
func TestWrongPods(t *testing.T) {
	if !nstest.Enter(t, cgroups) {
		return
	}
	other, nested, gone := unique(3), unique(4), unique(5)
	wrong := pod(t, "d/wrong", other, "kubepods-pod"+other, "10.244.0.99/32")
	got := asked(t, dials, runner(), wrong)
	wants(t, got, "", probe.Unknown, "has no address 10.244.0.7")
	wants(t, got, "", probe.Fail, "refused") // the check still runs on the node

	// A process that has created a network namespace inside the pod, and then the pod's own.
	pod(t, "d/nested", nested, "kubepods-pod"+nested, "")
	whole := pod(t, "d/nested", nested, "kubepods-pod"+nested, "10.244.0.7/32")
	wants(t, asked(t, dials, runner(), whole), "d/nested", probe.OK, "connected")
	// The first pod that can be entered represents all.
	wants(t, asked(t, dials, runner(), wrong, whole), "d/nested", probe.OK, "connected")

	// Any process in a pod can create this: a network namespace with the pod's address in its own user namespace, before
	// the pod's.
	posed := unique(6)
	root := []syscall.SysProcIDMap{{HostID: 0, Size: 1}}
	made, _ := start(t, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: root, GidMappings: root,
	}, "d/posed", posed, "kubepods-pod"+posed, "10.244.0.7/32")
	wants(t, asked(t, dials, runner(), made), "", probe.Skip, "belongs to another user namespace")
	pod(t, "d/posed", posed, "kubepods-pod"+posed, "10.244.0.7/32")
	wants(t, asked(t, dials, runner(), made), "d/posed", probe.OK, "connected")

	// In a mesh the pod's own proxy accepts every connection, and a virtual machine receives every answer.
	mesh := unique(9)
	meshed, pid := process(t, "d/mesh", mesh, "kubepods-pod"+mesh, "10.244.0.7/32")
	l := listenAs(t, pid, "0.0.0.0:15001")
	wants(t, asked(t, dials, runner(), meshed), "", probe.Skip,
		"a service mesh proxy handles the pod's connections (port 15001)")
	wants(t, asked(t, dials, runner(), meshed, whole), "d/nested", probe.OK, "connected")
	l.Close()
	wants(t, asked(t, dials, runner(), meshed), "d/mesh", probe.OK, "connected")
	if out, err := exec.Command("nsenter", "-t", pid, "-n", "ip", "tuntap", "add", "tap0_kata", "mode",
		"tap").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wants(t, asked(t, dials, runner(), meshed), "", probe.Skip, "is a virtual machine (Kata)")

	absent := whole
	absent.Name, absent.Attrs = "d/absent", map[string]string{probe.AttrUID: gone}
	wants(t, asked(t, dials, runner(), absent), "", probe.Unknown, "no process of pod d/absent is visible")
	absent.Attrs = nil
	wants(t, asked(t, dials, runner(), absent), "", probe.Unknown, "no UID")
	wants(t, asked(t, dials, runner()), "", probe.Skip, "no ready workload pod")

	partly := runner()
	h := &probe.Host{Root: "/", Proc: "/proc", Only: []string{"/run/calico"}}
	partly.Enter = entry.Entry{Host: h, Args: []string{"session"}}.Run
	absent.Attrs = map[string]string{probe.AttrUID: gone}
	wants(t, asked(t, dials, partly, absent), "", probe.Skip, "not visible to the probe")
}

// TestChildren checks that a child that is killed, hangs or cannot start costs one unknown result, in time.
func TestChildren(t *testing.T) {
	if !nstest.Enter(t, cgroups) {
		return
	}
	uid := unique(6)
	good := pod(t, "d/good", uid, "kubepods-pod"+uid, "10.244.0.7/32")
	fatal := good
	fatal.Name = "d/fatal"
	wants(t, asked(t, dies, runner(), good), "d/good", probe.OK, "alive")
	wants(t, asked(t, dies, runner(), fatal), "", probe.Unknown, "signal: killed")
	wants(t, asked(t, dies, runner(), fatal, good), "d/good", probe.OK, "alive")

	// It lives as long as the check's deadline, not as long as a probe does by default.
	wants(t, asked(t, lives, runner(), good), "d/good", probe.OK, "session --life 59m")

	got := asked(t, hangs, runner(), good)
	wants(t, got, "d/good", probe.Unknown, "still blocked")
	if len(got) != 1 {
		t.Errorf("%+v", got)
	}

	broken := runner()
	broken.Enter = entry.Entry{Host: broken.Host, Args: []string{"-test.run=^$", "--"}}.Run // this program, and no session
	wants(t, asked(t, dials, broken, good), "", probe.Unknown, "exited before its answer was complete")
}

// TestPrivileges removes from a probe each capability that it needs to enter.
func TestPrivileges(t *testing.T) {
	if !nstest.Enter(t, cgroups) {
		return
	}
	uid := unique(7)
	target := pod(t, "d/web", uid, "kubepods-pod"+uid, "10.244.0.7/32")
	exe := must.Get(os.Executable())(t)
	for lacks, saw := range map[string]string{"sys_admin": "requires the capability SYS_ADMIN",
		"sys_ptrace": "CAP_SYS_PTRACE is missing"} {
		request, err := json.Marshal(probe.Request{Type: probe.RequestPlan,
			Plan: &probe.Plan{Checks: []string{dials.ID}, Targets: []probe.Target{target}}})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("setpriv", "--inh-caps=-"+lacks, "--bounding-set=-"+lacks, exe, "session")
		cmd.Stdin = bytes.NewReader(append(request, '\n'))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got []probe.Result
		events := probe.NewDecoder(bytes.NewReader(out))
		for {
			ev, err := events.Next()
			if err != nil {
				break
			}
			if ev.Result != nil {
				got = append(got, *ev.Result)
			}
		}
		wants(t, got, "", probe.Skip, saw)
		wants(t, got, "", probe.Fail, "refused")
	}
}

// TestHostCanPodCannot runs the path checks on both sides of a pod's veth: first all is well, and then the node
// forwards nothing.
func TestHostCanPodCannot(t *testing.T) {
	if !nstest.Enter(t, cgroups+`
mkdir /run/netns
ip netns add other
ip link add eth0 type veth peer name eth0 netns other
ip addr add 10.9.0.1/24 dev eth0
ip link set eth0 up
ip -n other addr add 10.9.0.2/24 dev eth0
ip -n other link set eth0 up
ip -n other link set lo up
ip -n other addr add 10.244.1.2/32 dev lo
ip -n other route add 10.244.0.0/24 via 10.9.0.1
ip route add 10.244.1.0/26 via 10.9.0.2
sysctl -qw net.ipv4.ip_forward=1
nft add table ip t
nft add chain ip t f { type filter hook forward priority 0 ; }
`) {
		return
	}
	uid := unique(8)
	local, pid := process(t, "d/web", uid, "kubepods-pod"+uid, "10.244.0.7/32")
	for line := range strings.Lines(`
nsenter -t PID -n ip link set far netns SELF
ip link set far up
ip route add 10.244.0.7 dev far
nsenter -t PID -n ip route add 10.9.0.1 dev eth0
nsenter -t PID -n ip route add default via 10.9.0.1
`) {
		args := strings.Fields(strings.NewReplacer("PID", pid, "SELF", strconv.Itoa(os.Getpid())).Replace(line))
		if len(args) == 0 {
			continue
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	targets := []probe.Target{local,
		{Kind: probe.KindPod, Name: "d/far", Addr: netip.MustParseAddr("10.244.1.2"), Port: 8080}}
	paths := map[*probe.Check][2]string{ // the results for a good path and for a broken one
		podfacts.PodPing: {"5 of 5 packets", "none of 5 packets"},
		podfacts.PodTCP:  {"nothing listens on its port 8080", "no answer from 10.244.1.2:8080"},
		podfacts.PodMTU:  {"packets of 1500 bytes pass", "not even packets of 256 bytes"},
	}
	for c, says := range paths {
		got := asked(t, c, runner(), targets...)
		good := map[bool]probe.Status{true: probe.Info, false: probe.OK}[c == podfacts.PodTCP]
		wants(t, got, "", good, says[0])
		wants(t, got, "d/web", good, says[0])
		for _, r := range got {
			if r.From == "d/web" && strings.HasPrefix(r.Target, "d/web") {
				t.Errorf("the pod asked itself: %+v", r)
			}
		}
	}
	if out, err := exec.Command("nft", "add", "rule", "ip", "t", "f", "drop").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for c, says := range paths {
		got := asked(t, c, runner(), targets...)
		bad := map[bool]probe.Status{true: probe.Unknown, false: probe.Fail}[c == podfacts.PodMTU]
		good := map[bool]probe.Status{true: probe.Info, false: probe.OK}[c == podfacts.PodTCP]
		wants(t, got, "", good, says[0])
		wants(t, got, "d/web", bad, says[1])
	}
}
