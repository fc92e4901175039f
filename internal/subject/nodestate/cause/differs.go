package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
)

// nodeDiffers compares the node with a healthy node if no proven cause explains the fault.
func nodeDiffers(f diagnose.Findings) []diagnose.Case {
	named, concerned := relevant(f)
	if len(named) == 0 {
		return nil
	}
	weight := diagnose.Hint
	if named[0].Rank == diff.Breaks && changes(named) <= diff.MostTelling {
		weight = diagnose.Strong
	}
	var texts []string
	c := diagnose.Case{Covers: concerned, Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(named[0].Other)}}
	for i, d := range named {
		if i == evidence.MostNamed {
			texts = append(texts, fmt.Sprintf("and %d more", len(named)-i))
			break
		}
		texts = append(texts, d.Text(f.Node))
		w := 0
		if i == 0 {
			w = weight
		}
		c.For = append(c.For, diagnose.Clue{Finding: evidence.StateSays(d.Result, d.Text(f.Node)), Weight: w})
	}
	c.Says = fmt.Sprintf("what fails on {node} works on %s, and their settings differ: %s", named[0].Other, strings.Join(texts, "; "))
	c.Fix = putBack(named)
	return []diagnose.Case{c}
}

// changes counts the changes that the differences stand for: a list of rules, routes or policies counts as one.
func changes(all []diff.Difference) int {
	seen := map[string]bool{}
	for _, d := range all {
		switch d.Area {
		case nodestate.AreaRoutes, nodestate.AreaNeighbours, nodestate.AreaRules, nodestate.AreaIPsec, nodestate.AreaFirewall,
			nodestate.AreaQueues:
			seen[d.Area] = true
		default:
			seen[d.Area+" "+d.Name] = true
		}
	}
	return len(seen)
}

// relevant returns the differences that can affect checks that fail on the node but pass on a baseline node. If some
// differences alone can break these checks, it returns only those. concerned has the checks that they would explain.
func relevant(f diagnose.Findings) (named []diff.Difference, concerned []diagnose.Cover) {
	works := diff.WorksThere(f)
	for _, d := range diff.Differences(f) {
		if d.Touches(works) && d.Rank < diff.Hardly && (len(named) == 0 || d.Rank == named[0].Rank) {
			named = append(named, d)
		}
	}
	for _, d := range named {
		for _, id := range d.Concerns {
			if len(f.Bad(id)) > 0 && !diff.BadThere(f, id) && !slices.Contains(concerned, diagnose.Cover{Check: id}) {
				concerned = append(concerned, diagnose.Cover{Check: id})
			}
		}
	}
	return named, concerned
}

// areaFixes has, by area, the command that shows the area, the command that restores it, and the condition.
var areaFixes = map[string]struct{ look, back, when string }{
	nodestate.AreaSysctls: {"ssh {one} 'sudo sysctl -a 2>/dev/null | grep -e proxy_arp -e rp_filter -e forward -e arp_ -e disable -e ttl; grep -rn . /etc/sysctl.conf /etc/sysctl.d'",
		"kubectl -n {namespace} delete pod {pod}", "a setting of pods' interfaces (cali*) was changed, and whatever changed it is removed: Felix sets it again when it starts; restore other settings with sysctl -w"},
	nodestate.AreaRoutes:     {"ssh {one} 'ip route show table all; ip -6 route show table all' | grep -v -e bird -e 'proto kernel'", "ssh {node} sudo ip route del ROUTE  # as the first command shows it", "nothing on {node} needs that route"},
	nodestate.AreaNeighbours: {"ssh {one} ip neigh show nud permanent", "ssh {node} sudo ip neigh del ADDRESS dev DEVICE  # as the first command shows it", "that entry is unintended"},
	nodestate.AreaRules:      {"ssh {one} 'ip rule; ip -6 rule'", "ssh {node} sudo ip rule del pref NUMBER  # as the first command shows it", "nothing on {node} needs that rule"},
	nodestate.AreaIPsec:      {"ssh {one} 'sudo ip xfrm policy; sudo ip xfrm state | grep -e src -e mode'", "ssh {node} sudo ip xfrm policy delete SELECTOR dir DIRECTION  # as the first command shows it", "no VPN on {node} needs that policy; otherwise narrow it in the VPN's configuration"},
	nodestate.AreaFirewall: {"ssh {one} 'sudo nft list ruleset; sudo iptables-save -t raw; sudo iptables-save -t filter' | grep -v -e cali -e KUBE | head -100",
		"ssh {node} sudo nft delete rule FAMILY TABLE CHAIN handle NUMBER  # nft -a list ruleset shows it", "that rule is unintended, and you first changed what writes it"},
	nodestate.AreaQueues: {"ssh {one} 'tc -s qdisc; ip -d link | grep -B1 -A1 xdp'", "ssh {node} sudo tc qdisc del dev DEVICE root  # an XDP program: sudo ip link set dev DEVICE xdp off", "nothing on {node} needs it, and you first stopped what created it"},
	nodestate.AreaKubelet: {"ssh {one} 'sudo cat /var/lib/kubelet/config.yaml; ps -o args= -C kubelet'",
		"ssh {node} sudo systemctl restart {kubelet}", "its configuration on {node} is corrected; running pods keep their old settings"},
	nodestate.AreaRuntime: {"ssh {one} sudo crictl info", "ssh {node} sudo systemctl restart {containerd}", "its configuration on {node} is corrected"},
	nodestate.AreaContainerd: {"ssh {one} 'sudo grep -v -i -e auth -e password /etc/containerd/config.toml'",
		"ssh {node} sudo systemctl restart {containerd}", "its configuration on {node} is corrected"},
	nodestate.AreaProxy:  {"kubectl -n kube-system get cm kube-proxy -o yaml; kubectl -n kube-system get pods -o wide | grep kube-proxy", "", ""},
	nodestate.AreaLimits: {"ssh {one} 'for p in kubelet containerd; do pgrep -o -x $p | while read n; do grep -e files -e processes /proc/$n/limits; done; systemctl cat $p | grep -i limit; done'", "", ""},
	nodestate.AreaPaths: {"ssh {one} 'ls -ld /run/xtables.lock /var/run/calico /var/lib/calico; ls -l /opt/cni/bin /etc/cni/net.d; findmnt -T /opt/cni/bin'",
		"ssh {node} sudo rmdir /run/xtables.lock", "it is an empty directory on {node}: the next program that starts creates the file"},
	nodestate.AreaProcesses: {"ssh {one} 'systemctl list-units --type=service --state=running'", "", ""},
	nodestate.AreaCalico: {"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list",
		"kubectl -n {namespace} rollout restart ds/{daemonset}", "the DaemonSet has the intended setting, and the pod on {node} is older"},
	nodestate.AreaResolver:   {"ssh {one} cat /etc/resolv.conf", "", ""},
	nodestate.AreaInterfaces: {"ssh {one} ip -d link", "", ""},
	nodestate.AreaSystem:     {"ssh {one} 'uname -r; cat /proc/cmdline; grep -rn . /etc/modprobe.d'", "", ""},
}

// putBack returns a fix that shows the differing areas on both nodes and how to restore each.
func putBack(named []diff.Difference) *probe.Fix {
	fix := probe.Fix{
		Says:   "Compare both nodes, find out which node has the intended setting, and correct the other node.",
		Radius: "the check commands only read; a restored setting touches {node} only",
	}
	var areas []string
	for _, d := range named {
		known := areaFixes[d.Area]
		if slices.Contains(areas, d.Area) || len(areas) == diff.MostTelling {
			continue
		}
		areas = append(areas, d.Area)
		for _, node := range []string{"{node}", "{other}"} {
			if command := strings.ReplaceAll(known.look, "{one}", node); !slices.Contains(fix.Manifest, command) {
				fix.Manifest = append(fix.Manifest, command)
			}
		}
		if d.Area == nodestate.AreaCalico {
			fix.Radius += "; a restart of calico-node's DaemonSet restarts it on every node"
		}
		if known.back != "" {
			fix.OnlyIf = append(fix.OnlyIf, probe.Conditional{If: known.when, Manifest: []string{known.back}})
		}
	}
	return &fix
}
