package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPlant wants a tree in an image as it lies here, but for what would lend one user
// the rights of another.
func TestPlant(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	for _, dir := range []string{"usr", "usr/bin"} {
		if err := os.Mkdir(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{
		"usr/bin/plain": 0o755, "usr/bin/su": 0o755 | os.ModeSetuid, "usr/bin/wall": 0o755 | os.ModeSetgid, "usr/note": 0o640,
	} {
		full := filepath.Join(tree, name)
		if err := errors.Join(os.WriteFile(full, []byte(name), 0o600), os.Chmod(full, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("usr/bin", filepath.Join(tree, "bin")), os.Chmod(filepath.Join(tree, "usr"), 0o711)); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, made := tar.NewWriter(&buf), map[string]bool{}
	if err := errors.Join(plant(w, tree, made), folders(w, "/usr/bin/more", made), w.Close()); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		mode      int64
		kind      byte
		link, has string
	}
	got := map[string]entry{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[h.Name]; twice {
			t.Errorf("%s is in it twice", h.Name)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d:%d and is of %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		got[h.Name] = entry{h.Mode, h.Typeflag, h.Linkname, string(b)}
	}
	want := map[string]entry{
		"usr/": {0o711, tar.TypeDir, "", ""}, "usr/bin/": {0o755, tar.TypeDir, "", ""}, "bin": {0o777, tar.TypeSymlink, "usr/bin", ""},
		"usr/bin/plain": {0o755, tar.TypeReg, "", "usr/bin/plain"}, "usr/bin/su": {0o755, tar.TypeReg, "", "usr/bin/su"},
		"usr/bin/wall": {0o755, tar.TypeReg, "", "usr/bin/wall"}, "usr/note": {0o640, tar.TypeReg, "", "usr/note"},
	}
	for name, e := range want {
		if got[name] != e {
			t.Errorf("%s is %+v, not %+v", name, got[name], e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, not %d: %v", len(got), len(want), got)
	}
	if err := syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := plant(tar.NewWriter(io.Discard), tree, map[string]bool{}); err == nil {
		t.Error("a pipe was planted")
	}
}
