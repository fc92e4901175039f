package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kind describes how Calico is installed.
type kind struct{ s *cluster.Snapshot }

func (k kind) env(name string) string { return k.s.CalicoEnv(name) }

func (k kind) canal() bool { return strings.HasPrefix(k.s.Calico.Value.Labels["k8s-app"], "canal") }

func (k kind) etcd() bool { return k.s.Unregistered() == cluster.InEtcd }

func (k kind) ebpf() bool {
	return cluster.FelixBools[strings.ToLower(cluster.FelixTarget(k.s).Attrs["bpfEnabled"])]
}

// words describe the installation, the most important first.
func (k kind) words() string {
	from := "from DaemonSet " + cluster.DaemonSetOf(k.s.Calico.Value)
	if byOperator(k.s.Calico.Value) {
		from = "by the operator"
	}
	if k.canal() {
		from = "as Canal, with flannel's network"
	}
	out := []string{strings.TrimSpace("Calico "+k.s.Version()) + " " + from}
	switch {
	case k.ebpf():
		out = append(out, "eBPF data plane")
	case cluster.FelixTarget(k.s).Attrs["nftablesMode"] == "Enabled":
		out = append(out, "nftables data plane")
	}
	if k.s.Backend.Value != "" {
		out = append(out, "networking backend "+k.s.Backend.Value)
	}
	switch {
	case k.etcd():
		out = append(out, "data in etcd")
	case k.s.Info.Value.Group != "":
		out = append(out, "data in "+k.s.Info.Value.Group)
	}
	if name := k.env("FELIX_TYPHAK8SSERVICENAME"); name != "" && name != "none" {
		out = append(out, "with Typha")
	}
	return strings.Join(out, ", ")
}

// uncovered is a part of an installation that no check covers.
type uncovered struct{ part, text string }

// gaps returns the parts that no check covers.
func (k kind) gaps() []uncovered {
	settings := cluster.FelixTarget(k.s).Attrs
	var out []uncovered
	add := func(is bool, part, format string, args ...any) {
		if is {
			out = append(out, uncovered{part, fmt.Sprintf(format, args...)})
		}
	}
	add(k.ebpf(), facts.PartEBPF, "eBPF programs on interfaces and cgroups, and maps with routes, services, connections and policy; traffic through them is tested: pings, connections, services, DNS")
	add(k.etcd(), facts.PartEtcd, "pools, blocks, BGP peers, policies and Felix's settings: they are in Calico's own etcd, so the node is not compared with them")
	add(k.canal(), facts.PartFlannel, "flannel's part: its device flannel.1, its routes and /run/flannel/subnet.env")
	add(k.s.Backend.Value == "none" && !k.canal(), facts.PartPlugin, "the pods' addresses, interfaces and routes: another plugin manages them, and Calico only enforces policy")
	blocks := k.s.Blocks
	add(k.s.Backend.Value != "none" && !k.etcd() && blocks.Err == nil && len(blocks.Value.Owned) == 0, facts.PartIPAM,
		"the assignment of pod addresses: Calico's IPAM has no block, so another IPAM assigns them, and routes are judged only by the pods in this run")
	add(cluster.FelixBools[settings["wireguardEnabled"]] || cluster.FelixBools[settings["wireguardEnabledV6"]],
		facts.PartWireGuard,
		"WireGuard's peers and keys; its device, address, MTU and port are checked")
	n := 0
	for i := range k.s.Nodes {
		if k.s.Nodes[i].Labels[corev1.LabelOSStable] == "windows" {
			n++
		}
	}
	add(n > 0, facts.PartWindows, "%s with Windows: the probe does not run there, and this node is not compared with them", cluster.Plural(n, "node"))
	return out
}

func calicoKind(s *cluster.Snapshot, report func(probe.Result)) {
	switch why := cluster.NotCalicos(s.Node); {
	case s.Calico.Err != nil:
		report(apicheck.Unread(cluster.SeeCalicoPod(s.Calico.Err)))
		return
	case s.Calico.Value == nil && why != "":
		report(probe.Found(probe.Skip, "%s", why))
		return
	case s.Calico.Value == nil:
		report(probe.Found(probe.Skip, "calico-node was not found on this node"))
		return
	}
	k := kind{s}
	parts := k.gaps()
	names := []string{}
	for _, u := range parts {
		names = append(names, u.part)
	}
	report(probe.Found(probe.OK, "%s", k.words()).With(facts.NotLooked, names))
	for _, u := range parts {
		report(probe.Found(probe.Info, "not checked: %s", u.text).On(u.part))
	}
}
