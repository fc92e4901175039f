package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// write writes one archive with an image for each platform. It writes the image's name and digest to the file pin,
// unless pin is "".
func write(d definition, ref, cache, out, pin string, plain bool, limit int64) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range d.platforms {
		p = strings.ReplaceAll(p, "{host}", runtime.GOARCH)
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return fmt.Errorf("platform %s: %w", p, err)
		}
		img, err := build(d, cache, platform, plain)
		if err != nil {
			return fmt.Errorf("image %s for %s: %w", d.name, p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		size, err := sizeOf(img)
		if err != nil {
			return fmt.Errorf("image %s for %s: %w", d.name, p, err)
		}
		if !plain {
			fmt.Printf("%s %s: %.2f MB compressed\n", ref, p, float64(size)/1e6)
		}
		if limit > 0 && size > limit {
			return fmt.Errorf("image %s for %s has %d bytes compressed; the limit is %d bytes", d.name, p, size, limit)
		}
	}
	if pin == "" {
		return archive(index, []string{ref}, out)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("image %s: %w", d.name, err)
	}
	// The imported image's names on a node. If a pod specifies a digest, the image is found only under the second name.
	names := []string{ref, ref[:strings.LastIndex(ref, ":")] + "@" + digest.String()}
	return errors.Join(archive(index, names, out), os.WriteFile(pin, []byte(ref+"@"+digest.String()+"\n"), 0o644))
}

func build(d definition, cache string, platform *v1.Platform, plain bool) (v1.Image, error) {
	content, err := pack(d, cache, platform.Architecture)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	level := gzip.BestCompression
	if plain {
		level = gzip.NoCompression
	}
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(level))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS,
		Config: v1.Config{User: d.user, Entrypoint: d.entrypoint, Cmd: d.cmd, Env: d.env, Labels: map[string]string{
			"org.opencontainers.image.title": d.name, "org.opencontainers.image.source": "https://github.com/calico-probe/calico-probe",
			"org.opencontainers.image.licenses": "Apache-2.0",
		}},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(layer)},
	})
}

func diffIDs(layer v1.Layer) []v1.Hash {
	id, err := layer.DiffID()
	if err != nil {
		return nil // writing rejects an image that does not have the file
	}
	return []v1.Hash{id}
}

func sizeOf(img v1.Image) (int64, error) {
	m, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	n := m.Config.Size
	for _, l := range m.Layers {
		n += l.Size
	}
	return n, nil
}

// pack creates the layer: a tar of the files with fixed times and owners.
func pack(d definition, cache, arch string) ([]byte, error) {
	sources := map[string]string{} // path in the image -> file here
	for _, f := range d.files {
		from := filepath.Join(cache, strings.ReplaceAll(f.from, "{arch}", arch))
		sources[f.to] = from
		if f.libs {
			if err := libraries(from, sources); err != nil {
				return nil, err
			}
		}
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{}
	for _, tree := range d.trees {
		if err := plant(w, filepath.Join(cache, strings.ReplaceAll(tree, "{arch}", arch)), made); err != nil {
			return nil, err
		}
	}
	for _, to := range slices.Sorted(maps.Keys(sources)) {
		if err := folders(w, to, made); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(sources[to])
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{
			Name: to[1:], Mode: 0o755, Size: int64(len(b)), Typeflag: tar.TypeReg,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
	}
	for _, at := range slices.Sorted(maps.Keys(d.links)) {
		if err := folders(w, at, made); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{
			Name: at[1:], Linkname: d.links[at], Mode: 0o777, Typeflag: tar.TypeSymlink,
		}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// plant adds a whole folder with its links and files. It keeps file modes, except the setuid and setgid bits.
func plant(w *tar.Writer, tree string, made map[string]bool) error {
	return filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == tree {
			return err
		}
		to, err := filepath.Rel(tree, name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: to, Mode: int64(info.Mode().Perm())}
		switch {
		case e.IsDir():
			h.Name, h.Typeflag, made[to] = to+"/", tar.TypeDir, true
			return w.WriteHeader(h)
		case e.Type() == fs.ModeSymlink:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(name); err != nil {
				return err
			}
			return w.WriteHeader(h)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is not a file, a folder or a link", name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(b))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
}

func folders(w *tar.Writer, path string, made map[string]bool) error {
	dir := ""
	for part := range strings.SplitSeq(filepath.Dir(path), "/") {
		dir = filepath.Join(dir, part)
		if dir == "" || made[dir] {
			continue
		}
		made[dir] = true
		if err := w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return err
		}
	}
	return nil
}

// libraries adds the shared libraries of an ELF file, recursively.
func libraries(path string, into map[string]string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			loader := string(bytes.TrimRight(b, "\x00"))
			into[loader] = loader
		}
	}
	wanted, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	for _, lib := range wanted {
		found, err := findLibrary(lib)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if _, known := into[found]; known {
			continue
		}
		into[found] = found
		if err := libraries(found, into); err != nil {
			return err
		}
	}
	return nil
}

func findLibrary(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu/", "/usr/lib/*-linux-gnu/", "/lib64/", "/lib/", "/usr/lib/"} {
		if found, err := filepath.Glob(pattern + name); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("library %s is not on this machine", name)
}

// archive writes the index as an OCI layout in a tar. It lists each name in the form that containerd and other runtimes
// expect.
func archive(index v1.ImageIndex, names []string, out string) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := names[0][strings.LastIndex(names[0], ":")+1:]
	called := map[string]string{"io.containerd.image.name": names[0], "org.opencontainers.image.ref.name": tag}
	if err := top.AppendIndex(index, layout.WithAnnotations(called)); err != nil {
		return err
	}
	for _, name := range names[1:] {
		again, err := partial.Descriptor(index)
		if err != nil {
			return err
		}
		again.Annotations = map[string]string{"io.containerd.image.name": name}
		if err := top.AppendDescriptor(*again); err != nil {
			return err
		}
	}
	// Write to a temporary file first: a reader of the old archive must never get half of the new archive.
	f, err := os.Create(filepath.Join(dir, ".archive"))
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == f.Name() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, dir+"/")
		if err := w.WriteHeader(&tar.Header{
			Name: name, Mode: 0o644, Size: int64(len(b)), Typeflag: tar.TypeReg,
		}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
