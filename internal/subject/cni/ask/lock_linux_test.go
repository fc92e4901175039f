package ask

import (
	"os"
	"syscall"
)

func flockExclusively(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
