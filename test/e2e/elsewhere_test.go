//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
)

// listenIn opens a listener on 127.0.0.1 in the network namespace of a process. Its thread
// is never unlocked, and so ends with its goroutine.
func listenIn(t *testing.T, pid int) net.Listener {
	t.Helper()
	type opened struct {
		net.Listener
		err error
	}
	got := make(chan opened, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromPid(pid)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err != nil {
			got <- opened{nil, err}
			return
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		got <- opened{l, err}
	}()
	o := <-got
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.Listener
}

// quietRunbook leaves out how busy this machine is, which a node shares with other tests.
const quietRunbook = `apiVersion: calico-probe.io/v1alpha1
kind: Runbook
metadata:
  name: quiet
spec:
  title: is all well?
  steps:
  - run: {profile: standard, skip: [node-load]}
`

// TestNothingIsSentElsewhere runs the client in a separate network that only reaches its API server, and counts packets
// to other destinations.
func TestNothingIsSentElsewhere(t *testing.T) {
	for name, args := range map[string]string{
		"run":       "run --node node-a --skip node-load",
		"shell":     "shell --node node-a -c 'run node-swap; links'",
		"preflight": "preflight --node node-a",
		"runbook":   "runbook run " + written(t, "ours.yaml", quietRunbook) + " --node node-a",
		"version":   "version",
	} {
		t.Run(name, func(t *testing.T) {
			// Packets without another route go to the namespace's loopback, where they are counted.
			cmd := client(t)
			cmd.Path, cmd.Args = "/usr/bin/unshare", []string{"unshare", "--net", "sh", "-c", `set -e
ip link set lo up; ip route add default dev lo; ip -6 route add default dev lo
echo up; read port; read config
nft -f - <<END
table inet watch {
  counter elsewhere { }
  chain out { type filter hook output priority 0; tcp dport $port accept; tcp sport $port accept; counter name elsewhere; }
}
END
export KUBECONFIG=$config
` + file("bin/calico-probe") + " " + args + ` >"$said" 2>&1 </dev/null && code=0 || code=$?
echo "exit $code"
nft list counter inet watch elsewhere | tr '\n' ' '; echo
bash -c 'echo x >/dev/udp/198.51.100.1/53' 2>/dev/null || true
nft list counter inet watch elsewhere | tr '\n' ' '; echo`}
			said := filepath.Join(t.TempDir(), "said")
			cmd.Env = append(os.Environ(), "said="+said, "XDG_STATE_HOME="+t.TempDir())
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			out := bufio.NewScanner(pipe)
			if !out.Scan() || out.Text() != "up" {
				t.Fatalf("the network was not made: %q", out.Text())
			}
			r := relayOn(t, listenIn(t, cmd.Process.Pid))
			port := r.listener.Addr().(*net.TCPAddr).Port
			if _, err := fmt.Fprintf(in, "%d\n%s\n", port, r.kubeconfig(t)); err != nil {
				t.Fatal(err)
			}
			// A loaded machine may have a fault of its own.
			if !out.Scan() || !slices.Contains([]string{"exit 0", "exit 3", "exit 5"}, out.Text()) {
				text, err := os.ReadFile(said)
				t.Errorf("the client ended with %q: %s %v", out.Text(), text, err)
			}
			var counted []string
			for out.Scan() {
				counted = append(counted, out.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if len(counted) != 2 || !strings.Contains(counted[0], "packets 0 ") {
				t.Errorf("sent elsewhere: %q", counted)
			}
			if len(counted) == 2 && strings.Contains(counted[1], "packets 0 ") {
				t.Error("a packet sent on purpose was not counted: this test sees nothing")
			}
			r.mu.Lock()
			asked := len(r.conns)
			r.mu.Unlock()
			if name != "version" && asked == 0 {
				t.Error("it never spoke to its API server")
			}
		})
	}
	nothingLeft(t)
}
