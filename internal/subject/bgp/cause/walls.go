package cause

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
)

// shutter is a rule of a node's own firewall that refuses a port, and where it was seen.
type shutter struct {
	diagnose.Finding
	node, rule string
}

// shutterOf finds a rule on a node that drops or rejects a TCP port, by what node-state lists of the
// firewalls that are neither Calico's nor kube-proxy's.
func shutterOf(f diagnose.Findings, port int) (shutter, bool) {
	walls := diff.StateOf(f)[nodestate.AreaFirewall]
	if walls == nil {
		return shutter{}, false
	}
	refuses := regexp.MustCompile(fmt.Sprintf(`\btcp [^|]*\bdport %d\b.*\b(?:drop|reject)\b`, port))
	for _, rule := range slices.Sorted(maps.Keys(walls.Values)) {
		if refuses.MatchString(rule) {
			return shutter{walls.Of[rule], f.Node, rule}, true
		}
	}
	return shutter{}, false
}

// shutBy adds to the case of a session whose port is not let through the rule that does it, where one of the
// two ends lists it: the peer's first, then this node's own.
func shutBy(f diagnose.Findings, s session, c *diagnose.Case) {
	known, _ := s.port.Facts.Num(probe.FactPort)
	port := cmp.Or(int(known), 179)
	for _, at := range []string{diagnose.NodeOf(s.Finding), f.Node} {
		if at == "" {
			continue
		}
		if by, ok := shutterOf(f.At(at), port); ok {
			c.For = append(c.For, diagnose.Hints([]diagnose.Finding{by.Finding})...)
			c.Says += fmt.Sprintf("; on %s a rule refuses it: %s", by.node, by.rule)
			c.Args["other"], c.Args["port"] = diagnose.NodeArg(by.node), diagnose.NumberArg(float64(port))
			c.Fix = openInput
			return
		}
	}
}

// openInput is what to do about a rule that is known.
var openInput = &probe.Fix{
	Says: "Take the rule away on {other}, in what made it (ufw, firewalld, nftables.conf, a script), or let the nodes in before it.",
	Manifest: []string{"ssh {other} \"sudo nft list ruleset; sudo iptables-save\" | grep -n -w {port}",
		"ssh {other} systemctl is-active ufw firewalld nftables"},
	Radius: "the check commands only read; a rule that opens {port} lets the hosts it names speak BGP to that node",
}
