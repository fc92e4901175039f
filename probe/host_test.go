package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestHostPathStaysInsideTheNode(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"run/calico", "var", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"var/run": "/run", "etc/hosts": "/run/hosts", "up": "../../../../etc"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "run/hosts"), []byte("the node's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &Host{Root: root}
	if b, err := h.ReadFile("etc/hosts"); err != nil || string(b) != "the node's" {
		t.Errorf("through an absolute link: %q, %v", b, err)
	}
	for name, want := range map[string]string{
		"var/run/calico/bird.ctl": "run/calico/bird.ctl",
		"up/passwd":               "etc/passwd",
		"../../x":                 "x",
	} {
		if got, err := h.Path(name); err != nil || got != filepath.Join(root, want) {
			t.Errorf("Path(%s) = %s, %v", name, got, err)
		}
	}
}

func TestWhatTheWayDidNotBringIsNotMissing(t *testing.T) {
	h := &Host{Root: t.TempDir(), Only: []string{"/run/calico"}}
	if _, err := h.ReadFile("var/run/calico/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visible but absent: %v", err)
	}
	if _, err := h.ReadFile("run/containerd/containerd.sock"); !errors.Is(err, ErrNotVisible) {
		t.Errorf("not brought: %v", err)
	}
}
