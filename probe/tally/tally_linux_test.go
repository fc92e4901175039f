package tally

import (
	"errors"
	"net"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestManyListeners checks the limit of sockets that are read, and that it is reported: a pod decides how many there
// are.
func TestManyListeners(t *testing.T) {
	t.Parallel()
	for range 3 {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
	}
	if got, err := listenerTallies(2); len(got) != 2 || !errors.Is(err, probe.ErrNotVisible) {
		t.Errorf("%d, %v", len(got), err)
	}
	if got, err := listenerTallies(maxListeners); len(got) < 3 || err != nil {
		t.Errorf("%d, %v", len(got), err)
	}
}
