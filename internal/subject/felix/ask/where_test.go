package ask

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestFelixWhereItListens runs a Felix on another port than the present FelixConfiguration sets.
func TestFelixWhereItListens(t *testing.T) {
	t.Parallel()
	at := felixAt(t, checktest.Says(204, ""))
	running := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(at.Port))
	var inode uint32
	err := kernel.TCP(kernel.Listening, running.Port(), 0, func(s kernel.Socket) { inode = s.Inode })
	if err != nil || inode == 0 {
		t.Skipf("sockets are not to be seen: %v", err)
	}
	with := func(environment string) *probe.Host {
		files := map[string]string{"var/lib/calico/nodename": "n", "proc/73/environ": "SECRET=x\x00" + environment}
		checktest.Process(files, 73, 1, "calico-node", 109000, "", "calico-node", "-felix")
		h := checktest.Node(t, files)
		fd := filepath.Join(h.Proc, "73/fd")
		must.Do(t, os.Mkdir(fd, 0o700))
		must.Do(t, os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(fd, "3")))
		return h
	}
	port := "FELIX_HEALTHPORT=" + strconv.Itoa(at.Port)

	moved := at
	moved.Host = "127.0.0.3"
	r := checktest.Want(t, checktest.Run(t, felixLiveCheck, with(port), moved), "", probe.Warn, "204 from 127.0.0.1:",
		fmt.Sprintf("moves Felix to 127.0.0.3:%d at its next start, but calico-node's probe will keep using %s", at.Port, running))
	if r.Facts.Str(felix.FactNextStart) != fmt.Sprintf("127.0.0.3:%d", at.Port) {
		t.Errorf("%+v", r.Facts)
	}
	// The variables override the configuration, and both the kubelet's probe and Felix read them.
	got := checktest.Run(t, felixLiveCheck, with(port+"\x00FELIX_HEALTHHOST=127.0.0.1"), moved)
	if r = checktest.Want(t, got, "", probe.OK, "204 from 127.0.0.1:"); r.Facts[felix.FactNextStart] != nil {
		t.Errorf("%+v", r.Facts)
	}
	// The port of the probe is closed, and Felix is found by its socket.
	moved.Port = 2
	r = checktest.Want(t, checktest.Run(t, felixLiveCheck, with("FELIX_HEALTHPORT=1"), moved), "", probe.Fail,
		"calico-node's probe uses 127.0.0.1:1, but Felix answers at "+running.String())
	if list, _ := r.Facts[probe.FactListening].([]string); len(list) != 1 || r.Facts.Str(probe.FactReason) != "refused" {
		t.Errorf("%+v", r.Facts)
	}
	// Felix restarted on its configured port, and the kubelet still uses the old one.
	checktest.Want(t, checktest.Run(t, felixLiveCheck, with("FELIX_HEALTHPORT=1"), at), "localhost", probe.Fail,
		"uses 127.0.0.1:1")
}
