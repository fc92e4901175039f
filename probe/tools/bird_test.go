package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
)

// birdRoot is a node with a BIRD on it that answers as recorded.
func birdRoot(t *testing.T, recording string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "bird") // a UNIX address has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.MkdirAll(filepath.Join(root, "run/calico"), 0o755); err != nil {
		t.Fatal(err)
	}
	birdtest.Serve(t, filepath.Join(root, "run/calico/bird.ctl"), recording)
	return root
}

func TestBird(t *testing.T) {
	t.Parallel()
	root := birdRoot(t, "../bird/testdata/bird-2.0.12.txt")
	r, out := use(t.Context(), t, root, Bird, "show", "status")
	wants(t, r, probe.OK, "7 lines")
	if !strings.HasPrefix(out, "BIRD 2.0.12\nRouter ID is 10.0.0.2\n") || !strings.HasSuffix(out, "Daemon is up and running\n") {
		t.Errorf("%q", out)
	}
	r, _ = use(t.Context(), t, root, Bird, "show", "nonsense")
	wants(t, r, probe.Fail, "BIRD answers: syntax error")
	r, _ = use(t.Context(), t, root, Bird, "-6", "show", "status")
	wants(t, r, probe.Skip, "there is no /run/calico/bird6.ctl")
}

// TestBirdOfMany wants an answer that does not end cut off, and told so.
func TestBirdOfMany(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "recording")
	text := "0001 BIRD 2.0.12 ready.\n> restrict\n0016 Access restricted\n> show route\n1007-Table master4:\n" + strings.Repeat(" 10.244.0.0/26 unicast [Mesh] * (100)\n", mostOfBird+1000) + "0000 \n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, out := use(t.Context(), t, birdRoot(t, file), Bird, "show", "route")
	wants(t, r, probe.OK, "more than 200000 lines")
	if n := strings.Count(out, "\n"); n != mostOfBird+1 || !strings.Contains(out[len(out)-200:], "the rest is not shown") {
		t.Errorf("%d lines, at the end %q", n, out[len(out)-200:])
	}
}
