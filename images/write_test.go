package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestReleased requires one release image for each platform under one name and digest, each with only its own program.
// The same files must produce the same bytes at any path and time. The programs are fakes.
func TestReleased(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		program string
		env     []string
	}{"probe": {"probe", nil}, "client": {"calico-probe", []string{"USER=calico-probe"}}} {
		var written [2][]byte
		var dir, pinned string
		for i, mode := range []os.FileMode{0o600, 0o755} {
			dir = t.TempDir()
			for _, arch := range []string{"amd64", "arm64"} {
				file, made := filepath.Join(dir, "build/linux-"+arch, want.program), time.Unix(int64(1e9*i), 0)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name+" of "+arch), mode),
					os.Chtimes(file, made, made)); err != nil {
					t.Fatal(err)
				}
			}
			out, pin := filepath.Join(dir, "out.tar"), filepath.Join(dir, "pin")
			if err := run([]string{
				"-ref", "registry.example/" + name + ":1.2.3", "-cache", dir, "-o", out, "-pin", pin, "-max", "2000", name,
			}); err != nil {
				t.Fatal(err)
			}
			written[i], pinned = content(t, out), string(content(t, pin))
		}
		if !bytes.Equal(written[0], written[1]) {
			t.Errorf("%s: written twice it has other bytes", name)
		}
		if err := run([]string{
			"-ref", "x:1", "-cache", dir, "-o", filepath.Join(dir, "small.tar"), "-max", "100", name,
		}); err == nil {
			t.Errorf("%s: larger than is allowed, and written", name)
		}
		for _, m := range manifests(t, index(t, written[0], "registry.example/"+name, "1.2.3", pinned)) {
			platform, img := m.platform, m.image
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if c := config.Config; config.OS != "linux" || platform != "linux/"+config.Architecture || c.User != "65532:65532" ||
				!slices.Equal(c.Entrypoint, []string{"/" + want.program}) || len(c.Cmd) > 0 || !slices.Equal(c.Env, want.env) ||
				!config.Created.IsZero() {
				t.Errorf("%s for %s: %+v", name, platform, config)
			}
			layers, err := img.Layers()
			if err != nil || len(layers) != 1 {
				t.Fatalf("%s for %s: %d layers, %v", name, platform, len(layers), err)
			}
			r, err := layers[0].Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			files := tar.NewReader(r)
			h, err := files.Next()
			if err != nil || h.Name != want.program || h.Mode != 0o755 {
				t.Fatalf("%s for %s: %+v, %v", name, platform, h, err)
			}
			if b, err := io.ReadAll(files); err != nil || string(b) != name+" of "+config.Architecture {
				t.Errorf("%s for %s has the program %q, %v", name, platform, b, err)
			}
			if h, err := files.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s for %s: there is %v, %v", name, platform, h, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func content(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// index returns the index of an archive, which must be complete and have both names. pinned is the name with tag and
// digest.
func index(t *testing.T, archive []byte, name, tag, pinned string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		name := filepath.Join(dir, h.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := top.IndexManifest()
	if err != nil || len(m.Manifests) != 2 || m.Manifests[0].Digest != m.Manifests[1].Digest {
		t.Fatalf("%+v, %v", m, err)
	}
	digest := m.Manifests[0].Digest.String()
	if want := name + ":" + tag + "@" + digest + "\n"; pinned != want {
		t.Errorf("the pin is %q, want %q", pinned, want)
	}
	for i, want := range []map[string]string{
		{"io.containerd.image.name": name + ":" + tag, "org.opencontainers.image.ref.name": tag},
		{"io.containerd.image.name": name + "@" + digest},
	} {
		if got := m.Manifests[i].Annotations; !maps.Equal(got, want) {
			t.Errorf("it is named %v, want %v", got, want)
		}
	}
	inner, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(inner); err != nil {
		t.Error(err)
	}
	return inner
}

// manifest returns an image of an index.
type manifest struct {
	platform string
	image    v1.Image
}

// manifests requires one manifest for each platform of a release.
func manifests(t *testing.T, index v1.ImageIndex) []manifest {
	t.Helper()
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []manifest
	var platforms []string
	for _, d := range m.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, manifest{d.Platform.String(), img})
		platforms = append(platforms, d.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("it is for %s", got)
	}
	return out
}

// TestPlant requires that an image has the same tree as this machine, without setuid and setgid bits.
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
	if err := errors.Join(os.Symlink("usr/bin", filepath.Join(tree, "bin")),
		os.Chmod(filepath.Join(tree, "usr"), 0o711)); err != nil {
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
		"usr/": {0o711, tar.TypeDir, "", ""}, "usr/bin/": {0o755, tar.TypeDir, "", ""},
		"bin":           {0o777, tar.TypeSymlink, "usr/bin", ""},
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
