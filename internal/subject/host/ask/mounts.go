package ask

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
)

// Facts of node-disk about a file server.
const factMountedOn probe.Fact = "mounted_on" // the path of the server's first mount

const (
	storageServers = 8               // maximum number of servers to check
	storageWait    = 2 * time.Second // twice the time that a connection takes if its first packet is lost
)

// storagePorts maps network file systems to the default ports of their servers. Their mount options
// contain the server's address.
var storagePorts = map[string]string{"nfs": "2049", "nfs4": "2049", "cifs": "445"}

// storage is a server and its mounts.
type storage struct {
	kind, at, path string
	mounts         int
}

// checkStorage connects to the servers of the network file systems that the node has mounted. It does not touch the
// mounts, because a process hangs if it accesses a mount whose server is gone.
func checkStorage(ctx context.Context, p *probe.Pass) {
	servers := storageOf(p.Host)
	for _, s := range servers[:min(len(servers), storageServers)] {
		one, cancel := context.WithTimeout(ctx, storageWait)
		c, err := (&net.Dialer{}).DialContext(one, "tcp", s.at)
		cancel()
		mounts := fmt.Sprintf("%d %s mounts", s.mounts, s.kind)
		if s.mounts == 1 {
			mounts = "1 " + s.kind + " mount"
		}
		r := probe.Found(probe.OK, "the server answers (%s, first on %s)", mounts, s.path)
		switch {
		case err == nil:
			c.Close()
		case ctx.Err() != nil:
			r = probe.Found(probe.Unknown, "no time left to connect to the server")
		default:
			r = probe.Found(probe.Warn, "the server does not answer (%s), so programs that access it hang (%s, first on %s)",
				probe.OneLine(err.Error()), mounts, s.path).With(probe.FactReason, host.StorageSilent)
		}
		p.Report(r.On("server "+s.at).With(host.FactMounts, s.mounts).With(factMountedOn, s.path))
	}
}

// storageOf lists the servers of the network file systems in the mount table of the node's first process.
func storageOf(h *probe.Host) []storage {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return nil
	}
	first, err := proc.Proc(1)
	if err != nil {
		return nil
	}
	mounts, err := first.MountInfo()
	if err != nil {
		return nil
	}
	var out []storage
	for _, m := range mounts {
		port := storagePorts[m.FSType]
		address, err := netip.ParseAddr(m.SuperOptions["addr"])
		if port == "" || err != nil || !strings.HasPrefix(cmp.Or(m.SuperOptions["proto"], "tcp"), "tcp") {
			continue // UDP and RDMA have no connection that the check could open
		}
		at := net.JoinHostPort(address.String(), cmp.Or(m.SuperOptions["port"], port))
		if i := slices.IndexFunc(out, func(s storage) bool { return s.at == at }); i >= 0 {
			out[i].mounts++
			continue
		}
		out = append(out, storage{m.FSType, at, probe.Quoted(m.MountPoint), 1})
	}
	return out
}
