package ask

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOffloadsChecksums(t *testing.T) {
	t.Parallel()
	// The loopback never computes checksums: the kernel fixes that (loopback.c).
	if on, err := offloadsChecksums("lo"); err != nil || !on {
		t.Errorf("lo: %v %v", on, err)
	}
	if _, err := offloadsChecksums("nothing0"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("nothing0: %v", err)
	}
}
