package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

var differsFix = probe.Fix{
	Says: "Look at both nodes, find out which of them is as it was meant, and put the other one back.",
	Manifest: []string{"calico-probe run --node {node} --checks node-state -o json",
		"calico-probe run --node {other} --checks node-state -o json"},
	Radius: "looking touches nothing",
}

// nodeDiffers is what an engineer would ask at last: what is different here?
var nodeDiffers = &Rule{
	ID: "node-differs", Layer: LayerKernel, Compares: true, Residual: true,
	Title: "the node differs from a healthy one in a setting that can break this",
	Doc: `What fails here works on a baseline node, no cause that is proven explains it, and the kernel or a configuration here is not as it is there, in something that can touch what fails: a route, a firewall's rule, an IPsec policy, a setting of the kernel, the kubelet or the runtime, calico-node's environment. Such things are left behind by hand, by tools that harden nodes, by other networks and VPNs, and by configuration management that did not come to all nodes.
It is a comparison and no proof: of two nodes that differ in much, what fails may have another reason. One to three differences that break such things by themselves make it medium; more, or only those that nodes that work may have too, make it low. What differs on the two nodes by nature (names, addresses, sizes, versions) is not counted.
Told from a cause that knows the fault by that: such a cause is named first.`,
	Fix: differsFix,
	Match: func(f Findings) []Case {
		named, concerned := telling(f)
		if len(named) == 0 {
			return nil
		}
		weight := hint
		if named[0].rank == breaks && deeds(named) <= mostTelling {
			weight = strong
		}
		var texts []string
		c := Case{Covers: concerned, Args: map[string]Arg{"other": nodeArg(named[0].other)}}
		for i, d := range named {
			if i == mostNamed {
				texts = append(texts, fmt.Sprintf("and %d more", len(named)-i))
				break
			}
			texts = append(texts, d.text(f.Node))
			w := 0
			if i == 0 {
				w = weight
			}
			c.For = append(c.For, Clue{Finding: stateSays(d.result, d.text(f.Node)), Weight: w})
		}
		c.Says = fmt.Sprintf("what fails on {node} works on %s, and the two are set differently: %s", named[0].other, strings.Join(texts, "; "))
		c.Fix = putBack(named)
		return []Case{c}
	},
}

// deeds is how many things somebody did: a list of rules, routes or policies is one.
func deeds(all []difference) int {
	seen := map[string]bool{}
	for _, d := range all {
		switch d.area {
		case nodestate.AreaRoutes, nodestate.AreaNeighbours, nodestate.AreaRules, nodestate.AreaIPsec, nodestate.AreaFirewall,
			nodestate.AreaQueues:
			seen[d.area] = true
		default:
			seen[d.area+" "+d.name] = true
		}
	}
	return len(seen)
}

const (
	mostTelling = 3 // deeds that may all be the reason
	mostNamed   = 4 // differences that the cause's sentence has
)

// stateSays is a result of node-state with what of it is meant.
func stateSays(r Finding, text string) Finding {
	r.Saw = text
	return r
}

// telling are the differences that can touch what is bad on the node and works on a baseline node, the likeliest
// first: those that break such things by themselves, where there are any. With them comes what they would explain.
func telling(f Findings) (named []difference, concerned []Cover) {
	works := worksThere(f)
	for _, d := range differences(f) {
		if d.touches(works) && d.rank < hardly && (len(named) == 0 || d.rank == named[0].rank) {
			named = append(named, d)
		}
	}
	for _, d := range named {
		for _, id := range d.concerns {
			if len(f.Bad(id)) > 0 && !badThere(f, id) && !slices.Contains(concerned, Cover{Check: id}) {
				concerned = append(concerned, Cover{Check: id})
			}
		}
	}
	return named, concerned
}

// worksThere are the checks that are bad here and good on a baseline node, or bad there only about this node.
func worksThere(f Findings) []string {
	var out []string
	for _, r := range f.where(func(r Finding) bool { return bad(r.Status) }) {
		if slices.Contains(out, r.Check) || badThere(f, r.Check) {
			continue
		}
		if r.Facts[probe.FactLives] == true { // ping is blocked, and nothing else
			continue
		}
		if r.Check == logs.DaemonLog.ID && r.Status == probe.Warn { // a service that goes on, or that was started again
			continue
		}
		if slices.ContainsFunc(f.Elsewhere(r.Check), func(o Finding) bool { return answered(o.Status) }) {
			out = append(out, r.Check)
		}
	}
	return out
}

// badThere tells whether a check is bad on every baseline node that answered it, and not only about this node.
func badThere(f Findings, id string) bool {
	asked, ill := 0, 0
	for _, node := range f.Others() {
		of := f.At(node).Of(id)
		if !slices.ContainsFunc(of, func(r Finding) bool { return answered(r.Status) }) {
			continue
		}
		asked++
		if slices.ContainsFunc(of, func(r Finding) bool { return bad(r.Status) && !concerns(r, f.Node) && !aboutOwn(f, r) }) {
			ill++
		}
	}
	return asked > 0 && ill == asked
}

// aboutOwn tells whether what a baseline node asked about is bad when this node asks about it too and leads back
// here: a Service, one of whose endpoints is on this node.
func aboutOwn(f Findings, r Finding) bool {
	shared := r.Check == service.ServiceClusterIP.ID || r.Check == service.ServiceNodePort.ID
	return shared && slices.ContainsFunc(f.Bad(r.Check), func(own Finding) bool { return own.Target == r.Target })
}

// areaFixes are the commands that show an area on a node, and what puts it back, by area.
var areaFixes = map[string]struct{ look, back, when string }{
	nodestate.AreaSysctls: {"ssh {one} 'sudo sysctl -a 2>/dev/null | grep -e proxy_arp -e rp_filter -e forward -e arp_ -e disable -e ttl; grep -rn . /etc/sysctl.conf /etc/sysctl.d'",
		"kubectl -n {namespace} delete pod {pod}", "a setting of pods' interfaces (cali*) was changed, and what changed it is gone: Felix sets it anew when it starts; other settings go back with sysctl -w"},
	nodestate.AreaRoutes:     {"ssh {one} 'ip route show table all; ip -6 route show table all' | grep -v -e bird -e 'proto kernel'", "ssh {node} sudo ip route del ROUTE  # as the first command shows it", "nothing on {node} needs that route"},
	nodestate.AreaNeighbours: {"ssh {one} ip neigh show nud permanent", "ssh {node} sudo ip neigh del ADDRESS dev DEVICE  # as the first command shows it", "nobody meant that entry"},
	nodestate.AreaRules:      {"ssh {one} 'ip rule; ip -6 rule'", "ssh {node} sudo ip rule del pref NUMBER  # as the first command shows it", "nothing on {node} needs that rule"},
	nodestate.AreaIPsec:      {"ssh {one} 'sudo ip xfrm policy; sudo ip xfrm state | grep -e src -e mode'", "ssh {node} sudo ip xfrm policy delete SELECTOR dir DIRECTION  # as the first command shows it", "no VPN on {node} needs that policy; else narrow it in the VPN's configuration"},
	nodestate.AreaFirewall: {"ssh {one} 'sudo nft list ruleset; sudo iptables-save -t raw; sudo iptables-save -t filter' | grep -v -e cali -e KUBE | head -100",
		"ssh {node} sudo nft delete rule FAMILY TABLE CHAIN handle NUMBER  # nft -a list ruleset shows it", "that rule is not meant, and what writes it was changed first"},
	nodestate.AreaQueues: {"ssh {one} 'tc -s qdisc; ip -d link | grep -B1 -A1 xdp'", "ssh {node} sudo tc qdisc del dev DEVICE root", "nothing on {node} needs it"},
	nodestate.AreaKubelet: {"ssh {one} 'sudo cat /var/lib/kubelet/config.yaml; ps -o args= -C kubelet'",
		"ssh {node} sudo systemctl restart {kubelet}", "its configuration on {node} is put right; pods that run keep what they were started with"},
	nodestate.AreaRuntime: {"ssh {one} sudo crictl info", "ssh {node} sudo systemctl restart {containerd}", "its configuration on {node} is put right"},
	nodestate.AreaContainerd: {"ssh {one} 'sudo grep -v -i -e auth -e password /etc/containerd/config.toml'",
		"ssh {node} sudo systemctl restart {containerd}", "its configuration on {node} is put right"},
	nodestate.AreaProxy:  {"kubectl -n kube-system get cm kube-proxy -o yaml; kubectl -n kube-system get pods -o wide | grep kube-proxy", "", ""},
	nodestate.AreaLimits: {"ssh {one} 'for p in kubelet containerd; do pgrep -o -x $p | while read n; do grep -e files -e processes /proc/$n/limits; done; systemctl cat $p | grep -i limit; done'", "", ""},
	nodestate.AreaPaths: {"ssh {one} 'ls -ld /run/xtables.lock /var/run/calico /var/lib/calico; ls -l /opt/cni/bin /etc/cni/net.d; findmnt -T /opt/cni/bin'",
		"ssh {node} sudo rmdir /run/xtables.lock", "it is an empty folder on {node}: what starts next makes it a file"},
	nodestate.AreaProcesses: {"ssh {one} 'systemctl list-units --type=service --state=running'", "", ""},
	nodestate.AreaCalico: {"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list",
		"kubectl -n {namespace} rollout restart ds/{daemonset}", "the DaemonSet has what is meant, and the pod on {node} is older than that"},
	nodestate.AreaResolver:   {"ssh {one} cat /etc/resolv.conf", "", ""},
	nodestate.AreaInterfaces: {"ssh {one} ip -d link", "", ""},
	nodestate.AreaSystem:     {"ssh {one} 'uname -r; cat /proc/cmdline; grep -rn . /etc/modprobe.d'", "", ""},
}

// networkDiffers says, as the end of a sentence, what the files of network configurations have here and not on a
// baseline node, "" where that is nothing, or much.
func networkDiffers(f Findings) string {
	var texts []string
	for _, d := range differences(f) {
		if d.area == nodestate.AreaPaths && strings.HasPrefix(d.name, networkFolder+"/") {
			texts = append(texts, d.text(f.Node))
		}
	}
	if len(texts) == 0 || len(texts) > mostTelling {
		return ""
	}
	return "; the CNI configuration differs from a node that works: " + strings.Join(texts, "; ")
}

// putBack is how to look at the areas that differ, on both nodes, and how to put each back.
func putBack(named []difference) *probe.Fix {
	fix := differsFix
	fix.Manifest = nil
	fix.Radius = "reading changes nothing; what is put back touches {node} alone, but for a restart of the DaemonSet"
	var areas []string
	for _, d := range named {
		known := areaFixes[d.area]
		if slices.Contains(areas, d.area) || len(areas) == mostTelling {
			continue
		}
		areas = append(areas, d.area)
		for _, node := range []string{"{node}", "{other}"} {
			if command := strings.ReplaceAll(known.look, "{one}", node); !slices.Contains(fix.Manifest, command) {
				fix.Manifest = append(fix.Manifest, command)
			}
		}
		if known.back != "" {
			fix.OnlyIf = append(fix.OnlyIf, probe.Conditional{If: known.when, Manifest: []string{known.back}})
		}
	}
	return &fix
}
