//go:build !windows

package alerts

import "os"

func syncFolder(d *os.File) error { return d.Sync() }
