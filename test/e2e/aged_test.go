//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
)

// Faults that need time, or that would affect later tests, end after all other tests: a parallel test continues when
// the sequential tests are done.

// TestStalledInit requires that an init container's process is reported as stuck after two minutes. The process begins
// as a shell, before most other tests, and finally takes the program's name: it keeps its age.
func TestStalledInit(t *testing.T) {
	slow(t)
	const node = "node-b"
	cmd := exec.Command(file("bin/sandbox"), "exec", "--name", clusterName, node, "--", "bash", "-c", "read && as=$(mktemp -d)/install && ln -s $(command -v sleep) $as && exec -a /opt/cni/bin/install $as 600")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shell(t, node, `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in "/opt/cni/bin/install 600 "*) kill ${p#/proc/};; esac; done`)
		in.Close()
		_ = cmd.Wait() // it was killed
	})
	d := locally(t, node, "", "init-stall")
	d.want(t, "init-stall", probe.OK, "no init container")
	t.Parallel()
	if _, err := in.Write([]byte("now\n")); err != nil {
		t.Fatalf("%v: %s", err, errs.Bytes())
	}
	time.Sleep(time.Until(began.Add(125 * time.Second)))
	d = locally(t, node, "", "init-stall")
	d.want(t, "init-stall", probe.Fail, "install-cni (process ", "has been running for ", "state S")
}

// TestNodeLoad raises the load average of a node: more processes than CPUs want to run, at the lowest priority.
func TestNodeLoad(t *testing.T) {
	t.Parallel()
	// The kernel counts every five seconds, and what it counts then makes up a
	// twelfth of the average: sixty for each CPU bring it above four at once.
	loops := fmt.Sprintf("for i in $(seq %d); do while :; do :; done & done; wait", 60*runtime.NumCPU())
	busy := exec.Command("timeout", "60", "chrt", "-i", "0", "sh", "-c", loops)
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = busy.Process.Signal(syscall.SIGTERM) // it tells all of them
		_ = busy.Wait()
	})
	var d document
	eventually(t, time.Minute, func() string {
		d = locally(t, "node-a", "", "node-load")
		for _, r := range d.of("node-load") {
			load, _ := r.Facts.Num(host.FactLoad)
			cpus, _ := r.Facts.Num(host.FactCPUs)
			if r.Target == "" && load < 4*cpus {
				return r.String()
			}
		}
		return ""
	})
	for _, r := range d.of("node-load") {
		if r.Target == "" && (r.Status != probe.Warn || !strings.Contains(r.Saw, " per CPU")) {
			t.Error(r)
		}
	}
}
