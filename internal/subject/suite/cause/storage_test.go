package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestNetworkStorage wants a dead file server to be sure where something hangs in it, and no more than suspected
// where nothing does.
func TestNetworkStorage(t *testing.T) {
	t.Parallel()
	gone := of(host.NodeDisk.ID, "server 10.0.0.5:2049", probe.Found(probe.Warn, "the server does not answer").
		With(probe.FactReason, host.StorageSilent))
	load := func(in string) probe.Result {
		return of(host.NodeLoad.ID, "", probe.Found(probe.Info, "load 3.00 on 4 CPUs; 1 processes").
			With(host.FactStuck, 1).With(host.FactStuckIn, []string{in}))
	}
	volume := of(facts.CheckPodsStart, facts.StartsVolume, probe.Found(probe.Warn, "1 pod waits").
		With(facts.Starts, facts.StartsVolume))
	for name, c := range map[string]struct {
		of   diagnose.Findings
		sure probe.Confidence
	}{
		"the mount alone":    {found(gone), probe.Low},
		"the kubelet hangs":  {found(gone, load("kubelet (812) in rpc_wait_bit_killable")), probe.High},
		"umount hangs":       {found(gone, load("umount.nfs (900) in nfs_wait_bit_killable")), probe.High},
		"another disk hangs": {found(gone, load("jbd2/sda1-8 (201) in jbd2_log_wait_commit")), probe.Low},
		"a volume waits":     {found(gone, volume), probe.Medium},
	} {
		if got, want := causesOf(c.of), "network-storage-dead "+string(c.sure); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
