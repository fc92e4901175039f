package tools

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestConns(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mine := "(" + strconv.Itoa(os.Getpid()) + ")"
	r, out := use(t.Context(), t, "/", Conns, port)
	if r.Status == probe.Skip { // not Linux
		t.Skip(r.Saw)
	}
	wants(t, r, probe.OK, "1 x socket that listens with "+port)
	if !strings.Contains(out, "listens  127.0.0.1:"+port) || !strings.Contains(out, mine) {
		t.Error(out)
	}
	r, out = use(t.Context(), t, "/", Conns, "-e", port)
	wants(t, r, probe.OK, "connection with "+port)
	if !strings.Contains(out, "established  "+conn.LocalAddr().String()+"  127.0.0.1:"+port) {
		t.Error(out)
	}
	l.Close()
	r, _ = use(t.Context(), t, "/", Conns, port)
	wants(t, r, probe.Fail, "there is no socket that listens with "+port)
	for link, want := range map[string]bool{"socket:[4711]": true, "pipe:[4711]": false, "/x": false, "socket:[x]": false} {
		if _, ok := socketInode(link); ok != want {
			t.Errorf("%s: %v", link, ok)
		}
	}
}
