package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Calico itself, if 'up --calico' named it: a link to its image archives, and its manifest.
func (l layout) calicoImages() string   { return l.state("calico", "images") }
func (l layout) calicoManifest() string { return l.state("calico", "manifest.yaml") }

// calicoArchives is the archives' folder on a node.
const calicoArchives = "/opt/calico"

// exists reports whether a file exists.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", path, err)
	}
	return true, nil
}

// sameCalico reports whether a cluster was started with these archives and this manifest.
func (l layout) sameCalico(dir string, manifest []byte) bool {
	has, err := os.Readlink(l.calicoImages())
	if err != nil || has != dir {
		return false
	}
	kept, err := os.ReadFile(l.calicoManifest())
	return err == nil && bytes.Equal(kept, manifest)
}

// readCalico returns the folder of image archives and the manifest that the user named, if any.
func readCalico(o options) (dir string, manifest []byte, err error) {
	if o.calico == "" {
		if o.manifest != "" {
			return "", nil, badUsage("--manifest needs --calico: the folder with Calico's image archives")
		}
		return "", nil, nil
	}
	if dir, err = filepath.Abs(o.calico); err != nil {
		return "", nil, badUsage("--calico: %w", err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(archives) == 0 {
		return "", nil, badUsage("--calico %s: no image archive (*.tar) in that folder", o.calico)
	}
	for _, a := range archives {
		if err := isImageArchive(a); err != nil {
			return "", nil, badUsage("--calico: %s: %w", a, err)
		}
	}
	file := o.manifest
	if file == "" {
		file = filepath.Join(dir, "calico.yaml")
	}
	if manifest, err = os.ReadFile(file); err != nil {
		return "", nil, badUsage("Calico's manifest: %w", err)
	}
	objs, err := documents(manifest)
	if err != nil {
		return "", nil, badUsage("%s: %w", file, err)
	}
	if len(objs) == 0 {
		return "", nil, badUsage("%s has no objects", file)
	}
	return dir, manifest, nil
}

// isImageArchive looks for the index file of Docker's or OCI's archives.
func isImageArchive(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it has neither manifest.json nor index.json: save it with 'docker save' or 'crane pull'")
		}
		if err != nil {
			return fmt.Errorf("not a tar archive: %w", err)
		}
		if slices.Contains([]string{"manifest.json", "index.json"}, filepath.Clean(h.Name)) {
			return nil
		}
	}
}

// keepCalico stores both where the cluster's processes find them.
func (l layout) keepCalico(dir string, manifest []byte) error {
	if dir == "" {
		return nil
	}
	if err := errors.Join(
		os.MkdirAll(l.state("calico"), 0o700),
		os.Symlink(dir, l.calicoImages()),
		os.WriteFile(l.calicoManifest(), manifest, 0o600),
	); err != nil {
		return fmt.Errorf("keeping Calico's manifest: %w", err)
	}
	return nil
}
