package ask

import (
	"syscall"
)

// laying returns functions that create something else in place of a file, by the probe's name for it.
func laying() map[string]func(name string) error {
	return map[string]func(string) error{
		"named pipe": func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"socket":     func(name string) error { return syscall.Mknod(name, syscall.S_IFSOCK|0o600, 0) },
	}
}
