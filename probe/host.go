package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ErrNotVisible reports that the access method does not show a path of the node. A check reports it as skip, never
// as fail.
var ErrNotVisible = errors.New("not visible to the probe")

// Limits on what is read from a node. Checks normally read far less. But a pod that can write to a node's folder can
// create any number of files of any size.
const (
	maxFile    = 1 << 20
	maxEntries = 100_000
)

// Host is the node as a probe sees it.
//
// A pod that can write to the node's folders can put anything there: a link that leaves the root, a named pipe
// without a writer, a device. All methods resolve a path inside the node's root, no matter where its links point or
// how fast they change. They open only regular files, folders and sockets.
type Host struct {
	Node string   // the node's name in Kubernetes, "" if unknown
	Root string   // where the node's root directory is visible: "/", "/host", "/nodeproc/1/root"
	Proc string   // a proc file system: "/proc"
	Only []string // paths of the node visible below Root; nil = all of it

	Far   Elsewhere     // provides the files instead of Root; nil = the files are below Root
	Ahead time.Duration // how far the node's clock is ahead of this machine's clock

	places atomic.Pointer[map[string]string] // actual paths of Calico's folders, by their usual names
}

// Calico's folders for sockets and state on a node, unless calico-node's volumes use other paths.
const (
	PlaceRun = "/run/calico"
	PlaceLib = "/var/lib/calico"
)

// Place returns the path of one of Calico's folders on the node. MicroK8s moves them, and so do the operator's
// calicoRunHostPath and calicoLibHostPath. Inside calico-node's container, they have their usual names.
func (h *Host) Place(usual string) string {
	if moved := h.places.Load(); moved != nil && h.Only == nil && h.Far == nil {
		return cmp.Or((*moved)[usual], usual)
	}
	return usual
}

// learn reads the locations of Calico's folders from a plan.
func (h *Host) learn(targets []Target) {
	for _, t := range targets {
		if t.Kind == KindCalico {
			moved := map[string]string{PlaceRun: t.Attrs[AttrRunFolder], PlaceLib: t.Attrs[AttrLibFolder]}
			h.places.Store(&moved)
		}
	}
}

// Elsewhere provides a node's files that are not in any file system of this machine. Its errors wrap
// fs.ErrNotExist or ErrNotVisible where they apply.
type Elsewhere interface {
	Open(name string) (File, error)        // opens a regular file for reading
	ReadDir(name string) ([]string, error) // lists the names in a folder
}

// File is an open file of the node, for reading.
type File interface {
	io.ReaderAt
	io.Closer
	Name() string // the path on the node
	Stat() (fs.FileInfo, error)
}

// At returns the same node, but with its files in an Elsewhere.
func (h *Host) At(far Elsewhere) *Host {
	return &Host{Node: h.Node, Root: h.Root, Proc: h.Proc, Only: h.Only, Far: far, Ahead: h.Ahead}
}

// Now returns the time on the node's clock.
func (h *Host) Now() time.Time { return time.Now().Add(h.Ahead) }

// visible returns the clean form of a path on the node, such as "run/containerd/containerd.sock". If an access
// method shows only some paths, it shows those below /run, but not the link /var/run to it.
func (h *Host) visible(name string) (string, error) {
	name = path.Clean("/" + name)
	if strings.HasPrefix(name, "/var/run/") {
		name = strings.TrimPrefix(name, "/var")
	}
	if h.Far != nil || h.Only != nil && !h.sees(name) {
		return "", fmt.Errorf("%s: %w", name, ErrNotVisible)
	}
	return name, nil
}

func (h *Host) sees(name string) bool {
	for _, p := range h.Only {
		if name == p || strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// Find looks up a path and returns a handle for the file there. A caller can inspect the handle but cannot read from
// it. The handle's name is the path on the node after all links.
func (h *Host) Find(name string) (*os.File, error) {
	clean, err := h.visible(name)
	if err != nil {
		return nil, err
	}
	f, err := h.find(clean, true)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", name, err)
	}
	return f, nil
}

// Stat describes the file at a path, after following all links. If h.Far is set, it supports only regular files.
func (h *Host) Stat(name string) (fs.FileInfo, error) {
	var f interface {
		Stat() (fs.FileInfo, error)
		Close() error
	}
	var err error
	if h.Far != nil {
		f, err = h.Far.Open(path.Clean("/" + name))
	} else {
		f, err = h.Find(name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Open opens a regular file for reading. The file's name is the path on the node after all links.
func (h *Host) Open(name string) (*os.File, error) {
	return h.open(name, fs.FileMode.IsRegular, "a file")
}

// File opens a regular file like Open, but also through h.Far.
func (h *Host) File(name string) (File, error) {
	if h.Far != nil {
		return h.Far.Open(path.Clean("/" + name))
	}
	f, err := h.Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open opens a file only if it has the wanted kind. Opening a device can have side effects, and
// opening a named pipe waits for a writer.
func (h *Host) open(name string, wanted func(fs.FileMode) bool, what string) (*os.File, error) {
	found, err := h.Find(name)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", name, err)
	}
	if !wanted(info.Mode()) {
		return nil, fmt.Errorf("%s is %s and not %s: not read", name, kindOf(info.Mode()), what)
	}
	f, err := reopen(found)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return f, nil
}

// kindOf names the type of a file that is not regular.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsRegular():
		return "a file"
	}
	return "of an unknown kind"
}

// ReadFile reads a small file. It returns an error for a file of more than 1 MiB, because part of a configuration may
// mean something else than the whole.
func (h *Host) ReadFile(name string) ([]byte, error) {
	f, err := h.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadWhole(f, name, maxFile)
}

// ReadWhole reads a whole file that has at most the given number of bytes.
func ReadWhole(f io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes: not read", name, most)
	}
	return b, nil
}

// ReadDir lists the names in a folder, sorted.
func (h *Host) ReadDir(name string) ([]string, error) {
	if h.Far != nil {
		return h.Far.ReadDir(path.Clean("/" + name))
	}
	f, err := h.open(name, fs.FileMode.IsDir, "a folder")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("listing %s: %w", name, err)
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("%s has more than %d entries: not listed", name, maxEntries)
	}
	slices.Sort(names)
	return names, nil
}

// Readlink returns the target of the link at a path.
func (h *Host) Readlink(name string) (string, error) {
	clean, err := h.visible(name)
	if err != nil {
		return "", err
	}
	f, err := h.find(clean, false)
	if err != nil {
		return "", fmt.Errorf("looking up %s: %w", name, err)
	}
	defer f.Close()
	text, err := textOf(f)
	if err != nil {
		return "", fmt.Errorf("reading the link %s: %w", name, err)
	}
	return text, nil
}

// Dial connects to a UNIX socket. Errors contain the path on the node.
func (h *Host) Dial(ctx context.Context, name string) (net.Conn, error) {
	f, err := h.Find(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", name, err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is %s and not a socket", name, kindOf(info.Mode()))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", pathOf(f))
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = &net.OpError{Op: op.Op, Net: op.Net, Addr: &net.UnixAddr{Name: name, Net: "unix"}, Err: op.Err}
	}
	return conn, err
}
