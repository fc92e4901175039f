//go:build e2e

package skbdrop

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMain lets the program start again as one that traces until it is killed.
func TestMain(m *testing.M) {
	switch os.Getenv("TRACE_UNTIL") {
	case "killed":
		for {
			t, err := looks()
			if err != nil {
				os.Exit(1)
			}
			time.Sleep(100 * time.Millisecond)
			if _, _, err := t.End(); err != nil {
				os.Exit(1)
			}
		}
	case "open":
		t, err := looks()
		if u, is := errors.AsType[*UnavailableError](err); is {
			os.Stdout.WriteString(string(u.Why))
			os.Exit(0)
		}
		if err == nil {
			_, _, err = t.End()
		}
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func looks() (*Trace, error) {
	return Open(Filter{Protocol: ICMP, Numbers: []uint16{ourID}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
}

// again starts this program again in a mode of TestMain.
func again(until string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "TRACE_UNTIL="+until)
	return c
}

// TestKilled kills a tracing process at any moment: while it loads, traces, and ends. No program, link or map may
// remain.
func TestKilled(t *testing.T) {
	times := 40
	if testing.Short() {
		times = 10
	}
	seen := 0
	for range times {
		c := again("killed")
		must.Do(t, c.Start())
		time.Sleep(time.Duration(rand.Int64N(int64(700 * time.Millisecond))))
		seen += len(loaded(t))
		if err := c.Process.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("it has ended before: %v", err)
		}
		_ = c.Wait() // killed
	}
	if seen == 0 {
		t.Error("nothing of it was ever seen in the kernel: the look for it sees nothing")
	}
	t.Logf("seen %d times while it lived", seen)
	gone(t)
}

// TestEnded ends a trace in a process that continues: nothing may remain.
func TestEnded(t *testing.T) {
	trace := must.Get(looks())(t)
	if len(loaded(t)) == 0 {
		t.Error("nothing of it is seen in the kernel")
	}
	if _, _, err := trace.End(); err != nil {
		t.Error(err)
	}
	gone(t)
}

// gone checks that nothing of a trace is in the kernel, which frees it some time after its end.
func gone(t *testing.T) {
	t.Helper()
	var left []string
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if left = loaded(t); len(left) == 0 {
			return
		}
	}
	t.Errorf("still in the kernel: %v", left)
}

// loaded returns the programs, links and maps of a trace in the kernel.
func loaded(t *testing.T) (out []string) {
	t.Helper()
	var ours []ebpf.ProgramID
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			break // the last
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it was just freed
		}
		if info, err := p.Info(); err == nil && info.Type == ebpf.Tracing && slices.Contains(points, info.Name) {
			ours = append(ours, id)
			out = append(out, "program "+info.Name)
		}
		p.Close()
	}
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		if info, err := links.Link.Info(); err == nil && slices.Contains(ours, info.Program) {
			out = append(out, "link")
		}
	}
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if err != nil {
			break
		}
		id = next
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		if info, err := m.Info(); err == nil && strings.HasPrefix(info.Name, "skbdrop_") {
			out = append(out, "map "+info.Name)
		}
		m.Close()
	}
	return out
}

// TestRights checks that a trace needs only the two named capabilities: neither root's, nor access to kallsyms.
func TestRights(t *testing.T) {
	const perfmon, bpf = 38, 39
	for name, c := range map[string]struct {
		caps []uintptr
		want string
	}{
		"both":    {[]uintptr{perfmon, bpf}, ""},
		"bpf":     {[]uintptr{bpf}, string(NoRight)},
		"perfmon": {[]uintptr{perfmon}, string(NoRight)},
		"none":    {nil, string(NoRight)},
	} {
		child := again("open")
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: c.caps}
		said, err := child.Output()
		if err != nil || !bytes.Equal(said, []byte(c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, said, err, c.want)
		}
	}
}
