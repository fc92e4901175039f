package ui

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
)

// Whoami returns who runs this program, user@host, for the labels of created objects.
func Whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// StateDir returns the user's folder for this program's state. It is in the XDG base directory for state or, on Windows
// and macOS, in the system's cache folder.
func StateDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if filepath.IsAbs(dir) { // the specification says to ignore relative paths
		return filepath.Join(dir, "calico-probe"), nil
	}
	var err error
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err = os.UserCacheDir()
	} else {
		dir, err = os.UserHomeDir()
		dir = filepath.Join(dir, ".local", "state")
	}
	return filepath.Join(dir, "calico-probe"), err
}
