package netns

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/calico-probe/calico-probe/probe"
)

// TestWithinCrashes checks that a crash inside a network namespace becomes an error, and does not end the probe.
func TestWithinCrashes(t *testing.T) {
	ns, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	err = within(ns, func() error { panic("boom") })
	if errors.Is(err, probe.ErrNotVisible) && os.Getuid() != 0 {
		t.Skip("entering a network namespace takes CAP_SYS_ADMIN")
	}
	if err == nil || !strings.Contains(err.Error(), "crashed: boom") {
		t.Errorf("%v", err)
	}
	if err := within(ns, func() error { return nil }); err != nil {
		t.Error(err)
	}
}
