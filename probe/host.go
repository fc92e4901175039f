package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// ErrNotVisible says that a path of the node is not visible to this probe: its
// way onto the node did not bring it. A check turns it into skip, never fail.
var ErrNotVisible = errors.New("not visible to the probe")

// maxFile bounds what ReadFile returns; what checks read is far smaller.
const maxFile = 1 << 20

// Host is the node as a probe may see it.
type Host struct {
	Node string   // the node's Kubernetes name, "" when unknown
	Root string   // where the node's root directory is seen: "/", "/host", "/nodeproc/1/root"
	Proc string   // a proc file system: "/proc"
	Only []string // paths of the node visible below Root; nil = all of it
}

// Path translates a path of the node, such as "run/containerd/containerd.sock",
// to one the probe can open. Links are followed inside the node's root:
// /var/run -> /run never leads into the probe's own files.
func (h *Host) Path(name string) (string, error) {
	name = path.Clean("/" + name)
	if strings.HasPrefix(name, "/var/run/") {
		name = strings.TrimPrefix(name, "/var")
	}
	if h.Only != nil && !h.sees(name) {
		return "", fmt.Errorf("%s: %w", name, ErrNotVisible)
	}
	full, err := securejoin.SecureJoin(h.Root, name)
	if err != nil {
		return "", fmt.Errorf("looking up %s: %w", name, err)
	}
	return full, nil
}

func (h *Host) sees(name string) bool {
	for _, p := range h.Only {
		if name == p || strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// ReadFile reads a file of the node, at most 1 MiB of it.
func (h *Host) ReadFile(name string) ([]byte, error) {
	full, err := h.Path(name)
	if err != nil {
		return nil, err
	}
	return readCapped(full, name)
}

func readCapped(full, name string) ([]byte, error) {
	f, err := os.Open(full)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, errors.Unwrap(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return b, nil
}
