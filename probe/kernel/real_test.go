//go:build e2e

package kernel

import (
	"errors"
	"io/fs"
	"os/exec"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealDisturbed changes nftables rules while they are listed, and checks that such a list is not returned.
func TestRealDisturbed(t *testing.T) {
	if !nstest.Enter(t, "true\n") {
		return
	}
	asked := 0
	disturbed := func(times int) func() (int, error) {
		asked = 0
		return func() (int, error) {
			if asked++; asked <= times {
				for _, rule := range []string{"add table ip disturbs", "delete table ip disturbs"} {
					if out, err := exec.CommandContext(t.Context(), "nft", rule).CombinedOutput(); err != nil {
						t.Fatalf("nft %s: %v\n%s", rule, err, out)
					}
				}
			}
			return asked, fs.ErrNotExist // the error for a chain that was just deleted
		}
	}
	for _, times := range []int{0, 1, 2} {
		if got, err := steady(disturbed(times)); got != times+1 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("disturbed %d times: %d, %v", times, got, err)
		}
	}
	if got, err := steady(disturbed(9)); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Errorf("disturbed always: %d, %v", got, err)
	}
}
