// Package cgroup gives each node of the sandbox a folder in the machine's cgroups. Join moves a process there. Mount
// shows it to the node as the root of its cgroups. Remove removes it. The package supports cgroup v1 and v2; v2 is
// untested.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const root = "/sys/fs/cgroup"

// unified reports whether the machine has cgroup v2, one hierarchy for everything.
func unified() bool {
	var st unix.Statfs_t
	return unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchy is a mounted hierarchy of cgroup v1: its folder and mount options.
type hierarchy struct{ dir, options string }

// hierarchies lists the v1 hierarchies below /sys/fs/cgroup.
func hierarchies() ([]hierarchy, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("listing cgroups: %w", err)
	}
	var out []hierarchy
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		options, _, _ := strings.Cut(rest, ":")
		if options == "" {
			continue
		}
		dir := filepath.Join(root, strings.TrimPrefix(options, "name="))
		if _, err := os.Stat(dir); err == nil {
			out = append(out, hierarchy{dir, options})
		}
	}
	return out, nil
}

// Join creates a folder with that name in every hierarchy, and moves the process there.
func Join(name string, pid int) error {
	if unified() {
		// Untested: our machines have cgroup v1.
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making cgroup %s: %w", dir, err)
		}
		return writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h.dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making cgroup %s: %w", dir, err)
		}
		if h.options == "cpuset" { // a cpuset without CPUs accepts no process
			for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
				b, err := os.ReadFile(filepath.Join(h.dir, f))
				if err != nil {
					return fmt.Errorf("reading the machine's cpuset: %w", err)
				}
				if err := writeFile(filepath.Join(dir, f), strings.TrimSpace(string(b))); err != nil {
					return err
				}
			}
			if err := writeFile(filepath.Join(dir, "cgroup.clone_children"), "1"); err != nil {
				return err
			}
		}
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the folder with that name from every hierarchy, deepest first.
func Remove(name string) error {
	dirs := []string{filepath.Join(root, name)}
	if !unified() {
		all, err := hierarchies()
		if err != nil {
			return err
		}
		dirs = nil
		for _, h := range all {
			dirs = append(dirs, filepath.Join(h.dir, name))
		}
	}
	var errs []error
	for _, top := range dirs {
		var below []string
		err := filepath.WalkDir(top, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, p)
			}
			return nil // a folder that disappears meanwhile is fine
		})
		errs = append(errs, err)
		for _, dir := range slices.Backward(below) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Mount mounts the hierarchies below dir as this cgroup namespace sees them, with the node's own folder as their
// root.
func Mount(dir string) error {
	if unified() {
		if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mounting cgroup2: %w", err)
		}
		// A cgroup that delegates controllers must have no processes, so the first process moves to a child.
		own := filepath.Join(dir, "init")
		if err := os.MkdirAll(own, 0o755); err != nil {
			return fmt.Errorf("making cgroup init: %w", err)
		}
		if err := writeFile(filepath.Join(own, "cgroup.procs"), "1"); err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("reading cgroup controllers: %w", err)
		}
		return writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(strings.Fields(string(b)), " +"))
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting %s: %w", dir, err)
	}
	for _, h := range all {
		at := filepath.Join(dir, filepath.Base(h.dir))
		if err := os.Mkdir(at, 0o755); err != nil {
			return fmt.Errorf("mounting cgroups: %w", err)
		}
		if err := unix.Mount("cgroup", at, "cgroup", 0, h.options); err != nil {
			return fmt.Errorf("mounting cgroup %s: %w", h.options, err)
		}
	}
	return nil
}

func writeFile(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, errors.Unwrap(err))
	}
	return nil
}
