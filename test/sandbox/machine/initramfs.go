package machine

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file of a guest.
type File struct {
	content string
	mode    uint32 // with the type, as in stat
}

const (
	regular = 0o100000
	folder  = 0o040000
	symlink = 0o120000
)

// Text is a file that all may read.
func Text(content string) File { return File{content, regular | 0o644} }

// Secret is a file that only root may read.
func Secret(content string) File { return File{content, regular | 0o600} }

// Link is a symbolic link.
func Link(to string) File { return File{to, symlink | 0o777} }

// initramfs returns the guest's first root: busybox, the modules of its disks, and in /node the files that its first
// boot copies to the disk. boot is the folder that root.sh filled.
func initramfs(boot string, files map[string]File) ([]byte, error) {
	first, err := guest.ReadFile("guest/init.sh")
	if err != nil {
		return nil, err
	}
	all := map[string]File{
		"/init": {string(first), regular | 0o755},
		"/new":  {"", folder | 0o755}, "/proc": {"", folder | 0o755}, "/dev": {"", folder | 0o755},
	}
	if err := filepath.WalkDir(boot, func(p string, d fs.DirEntry, err error) error {
		to := ""
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Name() == "busybox":
			to = "/bin/busybox"
		case strings.HasSuffix(d.Name(), ".ko"):
			to = "/modules/" + d.Name()
		default:
			return nil
		}
		b, err := os.ReadFile(p)
		all[to] = File{string(b), regular | 0o755}
		return err
	}); err != nil {
		return nil, err
	}
	for name, f := range files {
		all["/node"+name] = f
	}
	return archive(all), nil
}

// archive writes the files, and the folders that they need, in the format of the kernel's initramfs ("newc", in its
// Documentation/driver-api/early-userspace/buffer-format.rst).
func archive(files map[string]File) []byte {
	all := map[string]File{}
	for name, f := range files {
		all[name] = f
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			all[dir] = File{"", folder | 0o755}
		}
	}
	var b bytes.Buffer
	add := func(n int, name string, f File) {
		size := len(f.content)
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
			n, f.mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
		pad(&b)
		b.WriteString(f.content)
		pad(&b)
	}
	// A folder sorts before its files, as the kernel requires.
	for i, name := range slices.Sorted(maps.Keys(all)) {
		add(i+1, strings.TrimPrefix(name, "/"), all[name])
	}
	add(0, "TRAILER!!!", File{})
	return b.Bytes()
}

// pad fills up to a multiple of four bytes.
func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
