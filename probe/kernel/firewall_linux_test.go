package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// TestFirewallError distinguishes a firewall that the kernel lacks, which cannot be tested here, from one that is not
// visible.
func TestFirewallError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ err, want error }{
		{unix.EINVAL, fs.ErrNotExist}, {unix.ENOENT, fs.ErrNotExist}, {unix.EPERM, probe.ErrNotVisible},
		{unix.EIO, unix.EIO},
	} {
		if got := firewallError(fmt.Errorf("asking: %w", c.err)); !errors.Is(got, c.want) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if err := firewallError(nil); err != nil {
		t.Error(err)
	}
}
