package probe

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// lay creates folders, files and links below a new folder: "d/", "f", "l -> target".
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if to, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(to, full)
		} else if err == nil {
			err = os.WriteFile(full, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPathsStayInsideTheNode(t *testing.T) {
	root := lay(t, map[string]string{
		"run/hosts": "the node's", "etc/x": "", "var/run": "-> /run", "etc/hosts": "-> /run/hosts",
		"up":    "-> ../../../../etc",
		"a/b/f": "f", "a/up": "-> b/../../etc/hosts",
	})
	h := &Host{Root: root}
	for name, want := range map[string]string{
		"etc/hosts": "/run/hosts", "var/run/hosts": "/run/hosts", "up/x": "/etc/x",
		"../../etc/../run/hosts": "/run/hosts", "/": "/", "a/up": "/run/hosts",
	} {
		f, err := h.Find(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Name() != want {
			t.Errorf("%s is %s, want %s", name, f.Name(), want)
		}
		f.Close()
	}
	if b, err := h.ReadFile("a/up"); err != nil || string(b) != "the node's" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := h.ReadFile("up/passwd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the machine has and the node has not: %v", err)
	}
	if names, err := h.ReadDir("up"); err != nil || !slices.Equal(names, []string{"hosts", "x"}) {
		t.Errorf("%q, %v", names, err)
	}
	if to, err := h.Readlink("etc/hosts"); err != nil || to != "/run/hosts" {
		t.Errorf("%q, %v", to, err)
	}
	if to, err := h.Readlink("etc/x"); err == nil {
		t.Errorf("no link, and is one to %q", to)
	}
	if _, err := h.Stat("etc/hosts"); err != nil {
		t.Error(err)
	}
}

func TestWhatTheWayDidNotBringIsNotMissing(t *testing.T) {
	h := &Host{Root: t.TempDir(), Only: []string{"/run/calico"}}
	if _, err := h.ReadFile("var/run/calico/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visible but absent: %v", err)
	}
	const name = "run/containerd/containerd.sock"
	_, read := h.ReadFile(name)
	_, listed := h.ReadDir(name)
	_, looked := h.Stat(name)
	_, link := h.Readlink(name)
	_, dialled := h.Dial(t.Context(), name)
	for _, err := range []error{read, listed, looked, link, dialled} {
		if !errors.Is(err, ErrNotVisible) {
			t.Errorf("not brought: %v", err)
		}
	}
}

// TestDial checks that sockets are found behind links inside the root, and with a path longer than a socket address may
// be.
func TestDial(t *testing.T) {
	long := "run/" + strings.Repeat("x", 200)
	root := lay(t, map[string]string{long + "/f": "", "l": "-> /" + long + "/s",
		"out": "-> ../../../../../../.." + t.TempDir() + "/s"})
	short := must.Get(os.MkdirTemp("", "s"))(t)
	t.Cleanup(func() { os.RemoveAll(short) })
	l := must.Get(net.Listen("unix", filepath.Join(short, "s")))(t)
	t.Cleanup(func() { l.Close() })
	must.Do(t, os.Rename(filepath.Join(short, "s"), filepath.Join(root, long, "s")))
	h := &Host{Root: root}
	dial := func(name string) error {
		c, err := h.Dial(t.Context(), name)
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, name := range []string{long + "/s", "l"} {
		if err := dial(name); err != nil {
			t.Error(err)
		}
	}
	if err := dial("out"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("outside: %v", err)
	}
	if err := dial(long + "/f"); err == nil || !strings.Contains(err.Error(), "is a file and not a socket") {
		t.Error(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if err := dial("l"); Reason(err) != "refused" || !strings.HasPrefix(err.Error(), "dial unix l: ") {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Dial(ctx, "l"); !errors.Is(err, context.Canceled) && Reason(err) == "refused" {
		t.Errorf("stopped: %v", err)
	}
}

// TestNodesFilesAreReadByHost checks that no other code opens files of a node: it would follow links out of the root,
// and block on named pipes.
func TestNodesFilesAreReadByHost(t *testing.T) {
	opening := map[string][]string{
		"os": {"Open", "OpenFile", "ReadFile", "ReadDir", "Stat", "Lstat", "Readlink", "DirFS", "OpenRoot",
			"OpenInRoot"},
		"filepath":   {"Glob", "Walk", "WalkDir", "EvalSymlinks"},
		"securejoin": {"SecureJoin"},
		"unix":       {"Open", "Openat", "Openat2", "Stat", "Lstat", "Statfs", "Readlink", "Readlinkat"},
		"syscall":    {"Open", "Stat", "Lstat", "Readlink"},
	}
	allowed := map[string]string{
		"host_linux.go":                 "is how Host does it",
		"host_other.go":                 "is how Host does it",
		"kernel/proc.go":                "reads the proc file system, which is the kernel's",
		"node/process.go":               "reads the proc file system",
		"socket/socket.go":              "reads the proc file system",
		"netns/netns_linux.go":          "reads the proc file system",
		"netns/view_linux.go":           "reads the proc file system",
		"tools/do/sh_linux.go":          "starts a shell in the node's root, which the user asked for",
		"bird/birdtest/":                "is for tests",
		"checktest/":                    "is for tests",
		"start/ask/init_stall.go":       "reads the proc file system",
		"link/ask/sysctl.go":            "reads the proc file system",
		"nodestate/ask/state_kernel.go": "reads the proc file system",
	}
	const subjects = "../internal/subject"
	used := map[string]bool{}
	look := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := call.X.(*ast.Ident)
			if !ok || !slices.Contains(opening[of.Name], call.Sel.Name) {
				return true
			}
			for place := range allowed {
				if strings.HasPrefix(strings.TrimPrefix(filepath.ToSlash(name), subjects+"/"), place) {
					used[place] = true
					return true
				}
			}
			t.Errorf("%s uses %s.%s: use probe.Host", files.Position(call.Pos()), of.Name, call.Sel.Name)
			return true
		})
		return nil
	}
	for _, root := range []string{".", subjects} {
		must.Do(t, filepath.WalkDir(root, look))
	}
	for place, why := range allowed {
		if !used[place] {
			t.Errorf("%s opens nothing any more (%s)", place, why)
		}
	}
}
