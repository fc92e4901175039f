package ask

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestNetworkMounts expects one result about a server that answers, one about a server that does not, and none about a
// mount over UDP.
func TestNetworkMounts(t *testing.T) {
	t.Parallel()
	there := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer there.Close()
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	mount := func(id int, kind, path, options string) string {
		return fmt.Sprintf("%d 1 0:%d / %s rw,relatime shared:9 - %s 10.0.0.5:/exports/x rw,%s\n", id, id, path, kind, options)
	}
	h := checktest.Node(t, map[string]string{"proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		mount(50, "nfs4", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/a", fmt.Sprintf("vers=4.2,hard,proto=tcp,port=%d,timeo=600,clientaddr=10.0.0.2,addr=127.0.0.1", port(gone))) +
		mount(51, "nfs4", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/b", fmt.Sprintf("vers=4.2,hard,proto=tcp,port=%d,timeo=600,clientaddr=10.0.0.2,addr=127.0.0.1", port(gone))) +
		mount(52, "nfs", "/data", fmt.Sprintf("vers=3,hard,proto=tcp,port=%d,addr=127.0.0.1", port(there))) +
		mount(53, "nfs", "/old", fmt.Sprintf("vers=3,hard,proto=udp,port=%d,addr=127.0.0.1", port(gone)))})
	var of []probe.Result
	for _, r := range checktest.Run(t, nodeDiskCheck, h) {
		if strings.HasPrefix(r.Target, "server ") {
			of = append(of, r)
		}
	}
	if len(of) != 2 || of[0].Status != probe.Warn || of[0].Facts.Str(probe.FactReason) != host.StorageSilent ||
		of[0].Facts[host.FactMounts] != 2 || of[1].Status != probe.OK {
		t.Errorf("%+v", of)
	}
}
