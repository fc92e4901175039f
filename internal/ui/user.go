package ui

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
)

// Whoami is who runs this program, user@host, for the labels of what is created.
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

// StateDir is where the user keeps the state of this program (XDG base directories), else
// what the system names for what may be lost.
func StateDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if filepath.IsAbs(dir) { // any other is to be ignored
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
