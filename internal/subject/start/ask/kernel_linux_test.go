package ask

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestOpenSockets expects descriptions of a process's sockets, and its other files by name.
func TestOpenSockets(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	h := checktest.Node(t, nil)
	h.Proc = "/proc"
	open, _ := openFiles(h, os.Getpid())
	if !slices.Contains(open, fmt.Sprintf("open: TCP %s to 0.0.0.0:0, listens", l.Addr())) ||
		!slices.ContainsFunc(open, func(s string) bool { return strings.HasPrefix(s, "open: /") }) {
		t.Errorf("%v", open)
	}
}
