package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestWhatRoundFourMissed has what the fourth round of blind trials answered wrongly, as it was seen there, and near
// misses of each.
func TestWhatRoundFourMissed(t *testing.T) {
	t.Parallel()
	noSocket := of(bgp.BGPSession.ID, "node-b 10.88.0.12", probe.Found(probe.Fail, "down Error: No listening socket for 48s")).
		With(probe.FactReason, "no-listener").With(probe.FactFamily, 4).With(probe.FactNode, "node-b")
	down := of(bgp.BGPSession.ID, "node-b 10.88.0.12", probe.Found(probe.Fail, "start Active Socket: Connection refused")).
		With(probe.FactReason, "refused").With(probe.FactFamily, 4).With(probe.FactNode, "node-b")
	bgpd := of(bgp.BGPPort.ID, "port 179 here", probe.Found(probe.OK, "listening on 0.0.0.0:179: bgpd (12946)")).
		With(probe.FactHeldBy, "bgpd (12946)").With(probe.FactListening, []string{"0.0.0.0:179"})
	lock := func(s probe.Status) probe.Result {
		return of(cni.IPAMFiles.ID, cni.TargetPluginLock, probe.Found(s, "/run/calico/ipam.lock is held by process 7 (ipam-backup.sh, 40s old)")).
			With(cni.FactHolder, 7)
	}
	state := func(s probe.Status) probe.Result {
		return of(kubelet.KubeletHealth.ID, kubelet.TargetState, probe.Found(s, "cpu_manager_state is of policy none"))
	}
	unmeant := of(facts.CheckBGPPeering, "", probe.Found(probe.Info, "a route reflector")).
		With(probe.FactReason, facts.NoBGPPeer)
	noRoute := of(route.RouteBlocks.ID, "IPv4", probe.Found(probe.Fail, "1 of 1 blocks have no route")).
		With(route.FactNoRoute, []string{"10.244.2.0/26 of node-b"}).With(probe.FactFamily, 4)
	refused := of(kubelet.KubeletHealth.ID, "healthz", probe.Found(probe.Fail, "refused")).With(probe.FactReason,
		"refused")
	well := of(kubelet.KubeletHealth.ID, "healthz", probe.Found(probe.OK, "200")).With(probe.FactCode, 200)
	kept := of(facts.CheckNodeLease, "", probe.Found(probe.OK, "renewed 2s ago"))
	for name, c := range map[string]struct {
		of   diagnose.Findings
		want string
	}{
		"a BGP daemon has the port":         {found(noSocket, bgpd), "bird-port-taken IPv4 high"},
		"somebody had it":                   {found(noSocket), "bird-port-taken IPv4 medium"},
		"near: BIRD listens there":          {found(down, bgpd), ""},
		"somebody holds the lock":           {found(lock(probe.Fail)), "ipam-lock-held high"},
		"a call of the plugin holds it":     {found(lock(probe.Warn)), "ipam-lock-held medium"},
		"near: one after the other":         {found(lock(probe.OK)), ""},
		"the kubelet ends for its state":    {found(state(probe.Fail), refused, kept), "kubelet-state-differs high"},
		"it will when it next starts":       {found(state(probe.Warn), well, kept), "kubelet-state-differs medium"},
		"no peer is meant for the node":     {found(unmeant, noRoute), "bgp-no-peers high"},
		"near: others make its routes":      {found(unmeant), ""},
		"near: nothing is saved, and it is": {found(refused, kept), "kubelet-dead medium"},
	} {
		if got := causesOf(c.of); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
