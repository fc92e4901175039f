package diagnose

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// units returns the systemd units of this node's kubelet and runtime. Some distributions run both in one program. The
// kubelet's version or, for MicroK8s, the runtime's socket shows which distribution it is.
func units(f Findings) map[string]string {
	out := map[string]string{"kubelet": "kubelet", "containerd": "containerd", "runtime": "containerd", "together": ""}
	one := func(agent, server string) {
		unit := agent
		if len(f.With(facts.CheckNodeReady, facts.ControlPlane, true)) > 0 {
			unit = server
		}
		out["kubelet"], out["containerd"], out["runtime"] = unit, unit, unit
		out["together"] = "; here, " + unit +
			" is both kubelet and containerd, and on a control plane node also the API server and its datastore"
	}
	for _, r := range f.Of(facts.CheckNodeReady) {
		switch version := r.Facts.Str(facts.Kubelet); {
		case strings.Contains(version, "+k3s"):
			one("k3s-agent", "k3s")
		case strings.Contains(version, "+rke2"):
			one("rke2-agent", "rke2-server")
		case strings.Contains(version, "+k0s"):
			one("k0sworker", "k0scontroller")
		}
		switch r.Facts.Str(facts.Runtime) {
		case "cri-o":
			out["runtime"] = "crio"
		case "docker":
			out["runtime"] = "docker"
		}
	}
	snap := func(r Finding) bool { return strings.HasPrefix(r.Facts.Str(probe.FactSocket), "/var/snap/microk8s/") }
	if len(f.Where(snap)) > 0 {
		out["kubelet"], out["containerd"], out["runtime"] = "snap.microk8s.daemon-kubelite",
			"snap.microk8s.daemon-containerd", "snap.microk8s.daemon-containerd"
		out["together"] = "; snap.microk8s.daemon-kubelite is the kubelet with the rest of Kubernetes in one"
	}
	return out
}
