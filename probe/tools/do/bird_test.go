package do

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// birdRoot is a node with a BIRD that serves recorded answers.
func birdRoot(t *testing.T, recording string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "bird") // a UNIX address has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	must.Do(t, os.MkdirAll(filepath.Join(root, "run/calico"), 0o755))
	birdtest.Serve(t, filepath.Join(root, "run/calico/bird.ctl"), recording)
	return root
}

func TestBird(t *testing.T) {
	t.Parallel()
	root := birdRoot(t, "../../bird/testdata/bird-2.0.12.txt")
	r, out := use(t.Context(), t, root, "bird", "show", "status")
	wants(t, r, probe.OK, "7 lines")
	if !strings.HasPrefix(out, "BIRD 2.0.12\nRouter ID is 10.0.0.2\n") ||
		!strings.HasSuffix(out, "Daemon is up and running\n") {
		t.Errorf("%q", out)
	}
	r, _ = use(t.Context(), t, root, "bird", "show", "nonsense")
	wants(t, r, probe.Fail, "BIRD answers: syntax error")
	r, _ = use(t.Context(), t, root, "bird", "-6", "show", "status")
	wants(t, r, probe.Skip, "no /run/calico/bird6.ctl")
}

// TestBirdOfMany checks that an endless answer is truncated, and reported as such.
func TestBirdOfMany(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "recording")
	text := "0001 BIRD 2.0.12 ready.\n> restrict\n0016 Access restricted\n> show route\n1007-Table master4:\n" + strings.Repeat(" 10.244.0.0/26 unicast [Mesh] * (100)\n", maxBIRD+1000) + "0000 \n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	r, out := use(t.Context(), t, birdRoot(t, file), "bird", "show", "route")
	wants(t, r, probe.OK, "more than 200000 lines")
	if n := strings.Count(out, "\n"); n != maxBIRD+1 ||
		!strings.Contains(out[len(out)-200:], "the rest is not shown") {
		t.Errorf("%d lines, at the end %q", n, out[len(out)-200:])
	}
}

// TestBirdPattern checks that a pattern is quoted for BIRD.
func TestBirdPattern(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "recording")
	text := "0001 BIRD 2.0.12 ready.\n> restrict\n0016 Access restricted\n> show protocols \"Mesh_*\"\n1002-Mesh_10_0_0_2 BGP\n0000 \n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	r, _ := use(t.Context(), t, birdRoot(t, file), "bird", "show", "protocols", "Mesh_*")
	wants(t, r, probe.OK, "1 line")
}

// hung is a node whose BIRD accepts connections, writes the given text and no more.
func hung(t *testing.T, says string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "bird") // a UNIX address has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	must.Do(t, os.MkdirAll(filepath.Join(root, "run/calico"), 0o755))
	l, err := net.Listen("unix", filepath.Join(root, "run/calico/bird.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = conn.Write([]byte(says)) // the other side may have closed
		}
	}()
	return root
}

// TestBirdHung checks that a silent BIRD fails each time, and that stopping works.
func TestBirdHung(t *testing.T) {
	t.Parallel()
	h := &probe.Host{Root: hung(t, "")}
	for range 20 {
		r := birdQuery{tools.BIRDArgs{Socket: "/run/calico/bird.ctl", Command: "show status"},
			10 * time.Millisecond}.run(t.Context(),
			&probe.Job{Host: h, Out: io.Discard})
		wants(t, r, probe.Fail, "BIRD does not answer within 10ms")
	}
	cut := &probe.Host{Root: hung(t, "0001 BIRD 2.0.12 ready.\n0016 Access restricted\n1007-Table master4:\n")}
	r := birdQuery{tools.BIRDArgs{Socket: "/run/calico/bird.ctl", Command: "show route"}, time.Second}.run(t.Context(),
		&probe.Job{Host: cut, Out: io.Discard})
	wants(t, r, probe.Unknown, "did not end within 1s: 1 line arrived")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan probe.Result, 1)
	go func() {
		r, _ := use(ctx, t, h.Root, "bird", "show", "status")
		got <- r
	}()
	time.AfterFunc(100*time.Millisecond, cancel)
	select {
	case r := <-got:
		wants(t, r, probe.Unknown, "stopped before BIRD answered")
	case <-time.After(birdLimit / 2):
		t.Error("it is not stopped")
	}
}
