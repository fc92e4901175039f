//go:build !linux

package probe

import (
	"os"
	"path/filepath"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// find opens the file at name inside the root. Nodes never run this operating system. This version runs only on the
// client's machine, where attackers cannot create links.
func (h *Host) find(name string, follow bool) (*os.File, error) {
	full, err := securejoin.SecureJoin(h.Root, name)
	if err != nil {
		return nil, err
	}
	if !follow {
		full = filepath.Join(h.Root, name)
	}
	return os.OpenFile(full, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func pathOf(f *os.File) string { return f.Name() }

func textOf(link *os.File) (string, error) { return os.Readlink(link.Name()) }

func reopen(found *os.File) (*os.File, error) { return os.Open(found.Name()) }
