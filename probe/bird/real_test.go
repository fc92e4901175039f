//go:build e2e

package bird_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/must"
)

var record = flag.Bool("record", false, "write the recordings in testdata anew")

// The peers of the BIRD under test: one that comes up, one without a listener, one that only listens, and an
// unreachable one.
const peers16 = `
router id 10.0.0.1;
listen bgp address 127.0.0.1;
protocol device device1 { }
protocol direct direct1 { }
protocol kernel kernel1 { learn; persist; scan time 2; import all; export all; graceful restart; merge paths on; }
protocol static static1 { route 10.244.0.0/26 blackhole; }
template bgp mesh { local as 64512; multihop; import all; export all; source address 127.0.0.1; graceful restart; connect delay time 1; connect retry time 1; error wait time 1,2; }
protocol bgp Mesh_127_0_0_2 from mesh { neighbor 127.0.0.2 as 64512; }
protocol bgp Mesh_127_0_0_3 from mesh { neighbor 127.0.0.3 as 64512; }
protocol bgp Node_127_0_0_4_port_179 from mesh { neighbor 127.0.0.4 as 64512; passive on; }
protocol bgp Global_192_0_2_1 from mesh { neighbor 192.0.2.1 as 64513; }
`

const peers2 = `
router id 10.0.0.2;
protocol device device1 { }
protocol static static1 { ipv4; route 10.244.0.64/26 blackhole; }
template bgp mesh { local 127.0.0.2 as 64512; strict bind on; multihop; connect delay time 1; connect retry time 1; ipv4 { import all; export all; }; graceful restart on; }
protocol bgp Mesh_127_0_0_1 from mesh { neighbor 127.0.0.1 as 64512; }
protocol bgp Mesh_127_0_0_3 from mesh { neighbor 127.0.0.3 as 64512; }
`

// TestRealBIRDs runs BIRD 1.6 and 2 as peers in a network namespace and queries both.
func TestRealBIRDs(t *testing.T) {
	old, young := birdtest.Socket(t), birdtest.Socket(t)
	inNamespace(t, func() {
		start(t, "bird/usr/sbin/bird", old, peers16, "-R")
		start(t, "bird2/usr/sbin/bird", young, peers2)
	})
	established(t, old, "127.0.0.2")
	established(t, young, "127.0.0.1")
	t.Run("1.6", func(t *testing.T) { checkOld(t, old) })
	t.Run("2", func(t *testing.T) { checkYoung(t, young) })
	t.Run("restricted", func(t *testing.T) {
		if _, err := dial(t, old).Ask("disable Mesh_127_0_0_2"); err == nil ||
			!strings.Contains(err.Error(), "Access denied") {
			t.Errorf("a change was not refused: %v", err)
		}
	})
	if *record {
		recording(t, old, "testdata/bird-1.6.8-restarting.txt")
		recording(t, young, "testdata/bird-2.0.12.txt")
	}
}

func checkOld(t *testing.T, socket string) {
	c := dial(t, socket)
	s := must.Get(c.Status())(t)
	if s.Version != "1.6.8" || s.RouterID != "10.0.0.1" || !s.Restarting || s.Waiting == 0 ||
		s.WaitWhole != 240*time.Second || s.WaitLeft == 0 {
		t.Errorf("status: %+v", s)
	}
	if age, ok := bird.Age(s.LastReboot, s.ServerTime); !ok || age < 0 || age > time.Minute {
		t.Errorf("started %v ago, known %v: %+v", age, ok, s)
	}
	for name, want := range map[string]string{
		"Mesh_127_0_0_2": "Established", "Mesh_127_0_0_3": "Connection refused", "Node_127_0_0_4_port_179": "Passive",
		"Global_192_0_2_1": "unreachable",
	} {
		// A refused peer's error is shown between two attempts.
		eventually(t, func() string {
			p := protocol(t, socket, name)
			if text := p.BGP + " " + p.LastError; !strings.Contains(text, want) ||
				!strings.Contains(name, strings.ReplaceAll(p.Neighbor.String(), ".", "_")) {
				return name + ": " + text
			}
			return ""
		})
	}
}

func checkYoung(t *testing.T, socket string) {
	s := must.Get(dial(t, socket).Status())(t)
	if s.Version != "2.0.12" || s.Restarting || s.Daemon != "Daemon is up and running" {
		t.Errorf("status: %+v", s)
	}
	p := protocol(t, socket, "Mesh_127_0_0_1")
	if !p.Established() || p.Neighbor.String() != "127.0.0.1" || p.Source.String() != "127.0.0.2" {
		t.Errorf("%+v", p)
	}
	if age, ok := bird.Age(p.Since, s.ServerTime); !ok || age < 0 || age > time.Minute {
		t.Errorf("since %q at %q: %v", p.Since, s.ServerTime, age)
	}
}

// TestFrozen checks that a BIRD that accepts but does not answer costs its deadline, and no more.
func TestFrozen(t *testing.T) {
	socket := birdtest.Socket(t)
	var cmd *exec.Cmd
	inNamespace(t, func() {
		cmd = start(t, "bird/usr/sbin/bird", socket,
			"router id 10.0.0.1;\nprotocol device { }\n")
	})
	eventually(t, func() string {
		if c, err := birdtest.Dial(t.Context(), socket); err != nil {
			return err.Error()
		} else if err := c.Close(); err != nil {
			return err.Error()
		}
		return ""
	})
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := birdtest.Dial(ctx, socket); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen BIRD: %v", err)
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, err := birdtest.Dial(t.Context(), socket); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dead BIRD: %v", err)
	}
}

// inNamespace runs f on a thread in a new network namespace with its loopback up. Processes that f starts stay there.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			err = exec.Command("ip", "link", "set", "lo", "up").Run()
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// start runs a BIRD in the foreground until the test ends.
func start(t *testing.T, binary, socket, config string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(filepath.Dir(socket), "bird.conf")
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(filepath.Join("../../.cache", binary),
		append([]string{"-f", "-c", file, "-s", socket}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have killed it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", binary, &out)
		}
	})
	return cmd
}

func dial(t *testing.T, socket string) *bird.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	c := must.Get(birdtest.Dial(ctx, socket))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func protocol(t *testing.T, socket, name string) bird.Protocol {
	t.Helper()
	all := must.Get(dial(t, socket).Protocols())(t)
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no protocol %s: %+v", name, all)
	return bird.Protocol{}
}

func established(t *testing.T, socket, peer string) {
	t.Helper()
	eventually(t, func() string {
		c, err := net.Dial("unix", socket) // it exists a moment before BIRD listens
		if err != nil {
			return err.Error()
		}
		_ = c.Close()
		if p := protocol(t, socket, "Mesh_"+strings.ReplaceAll(peer, ".", "_")); !p.Established() {
			return p.Name + " " + p.State + " " + p.Info
		}
		return ""
	})
}

func eventually(t *testing.T, ok func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		why := ok()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(why)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// recording writes BIRD's output to a file, byte by byte.
func recording(t *testing.T, socket, file string) {
	t.Helper()
	c := must.Get(net.Dial("unix", socket))(t)
	defer c.Close()
	var text bytes.Buffer
	said := func() {
		for {
			must.Do(t, c.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
			buf := make([]byte, 1<<16)
			n, err := c.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}
	said()
	for _, command := range []string{"restrict", "show status", "show protocols", "show protocols all",
		"show route 10.244.0.64/26", "show route 10.9.9.0/24"} {
		text.WriteString("> " + command + "\n")
		must.Get(c.Write([]byte(command + "\n")))(t)
		said()
	}
	must.Do(t, os.WriteFile(file, text.Bytes(), 0o644))
}
