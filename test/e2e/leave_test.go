//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// left lists what our runs have left on the API and on the nodes. Ephemeral
// containers stay in their pod's spec for ever, so only running ones count.
func left(t testing.TB) string {
	t.Helper()
	k := kube(t)
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"}
	var found []string
	pods, err := k.CoreV1().Pods("").List(context.Background(), ours)
	if err != nil {
		return err.Error()
	}
	for _, p := range pods.Items {
		found = append(found, "pod "+p.Namespace+"/"+p.Name)
	}
	jobs, err := k.BatchV1().Jobs("").List(context.Background(), ours)
	if err != nil {
		return err.Error()
	}
	for _, j := range jobs.Items {
		found = append(found, "job "+j.Namespace+"/"+j.Name)
	}
	for _, node := range []string{"node-a", "node-b"} {
		for line := range strings.Lines(processes(t, node)) {
			// or the script that brings it
			if strings.Contains(line, "/probe session ") || strings.Contains(line, "/probe run ") ||
				strings.Contains(line, "umask 077; d=;") {
				found = append(found, "process on "+node+": "+strings.TrimSpace(line))
			}
		}
		// The node's own folders, and those of its containers.
		for dir := range strings.FieldsSeq(mustSandbox(t, "exec", node, "--", "sh", "-c", "for d in run tmp var/tmp dev/shm root; do ls -d /proc/[0-9]*/root/$d/calico-probe-????????; done 2>/dev/null; true")) {
			found = append(found, "folder on "+node+": "+dir)
		}
	}
	return strings.Join(found, "; ")
}

// processes are the command lines of all there are on a node.
func processes(t testing.TB, node string) string {
	t.Helper()
	return mustSandbox(t, "exec", node, "--", "ps", "-ww", "-eo", "args")
}

// nothingLeft waits until all our objects are gone, within the janitor's time limit.
func nothingLeft(t testing.TB) {
	t.Helper()
	eventually(t, 60*time.Second, func() string { return left(t) })
}

// TestInterrupt requires that after Ctrl-C the client removes what it created before it exits.
func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		sig  syscall.Signal
		exit int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		t.Run(c.sig.String(), func(t *testing.T) {
			if got := signalled(c.sig)(t); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
			eventually(t, time.Minute, func() string { return left(t) })
		})
	}
}

// waitFor reads r until a line contains text, and returns what it read.
func waitFor(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("%q did not come: %v\n%s", text, err, seen.String())
		}
	}
	return seen.String()
}

// TestBrokenStream cuts every connection of the client at the first result from the node, and requires a complete
// answer.
func TestBrokenStream(t *testing.T) {
	relay := newRelay(t)
	var errs bytes.Buffer
	cmd, out := started(t, &errs, "run", "--node", "node-a", "--via", "pod", "--skip", "node-load", "-o", "ndjson",
		"--kubeconfig", relay.kubeconfig(t))
	waitFor(t, out, `"check":"node-swap"`)
	relay.cut()
	rest := waitFor(t, out, `"type":"verdict"`)
	_ = cmd.Wait() // its exit code tells more than the error
	// If a loaded machine calls for follow-up checks, this probe cannot take them any more.
	cut := strings.Count(rest, `"check":"probe-answered"`) -
		strings.Count(rest, `"saw":"the connection broke after the probe had answered its plan`)
	whole := cut == 0 && strings.Contains(rest, `"type":"end"`)
	// On a loaded machine a check may time out, which has nothing to do with the cut: then the run is incomplete.
	if code := cmd.ProcessState.ExitCode(); !whole || code != 0 && code != 5 {
		t.Errorf("after a cut: exit %d\n%s\n%s", code, errs.String(), rest)
	}
	if relay.cuts == 0 {
		t.Error("nothing was cut")
	}
	nothingLeft(t)
}
