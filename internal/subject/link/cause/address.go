package cause

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// addressSecondNIC is incident 003b.
func addressSecondNIC(f diagnose.Findings) []diagnose.Case { return misregistered(f, false) }

// addressBridge is incident 004a.
func addressBridge(f diagnose.Findings) []diagnose.Case { return misregistered(f, true) }

// misregistered returns the cases of families with a wrong registered address, on a bridge or on another kind of
// interface.
func misregistered(f diagnose.Findings, bridge bool) []diagnose.Case {
	var out []diagnose.Case
	for _, reg := range registeredElsewhere(f) {
		family := diagnose.FamilyOf(reg)
		address, internal := reg.Facts.Str(facts.Registered), reg.Facts.Str(facts.Internal)
		auto, looked := diagnose.Answer(f, link.IPAutodetect.ID, reg.Target)
		_, knows := auto.Facts[link.FactKeptOn]
		on, kind := auto.Facts.Str(link.FactKeptOn), auto.Facts.Str(link.FactKeptOnKind)
		if knows && on == "" || isBridge(on, kind, address) != bridge {
			continue
		}
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family,
			Args: evidence.MethodFor(family, internal, auto),
			For:  diagnose.Proves([]diagnose.Finding{reg})}
		if looked && !knows || reg.Status == probe.Info { // set by hand, or kept: on which interface is unknown
			c.For[0].Weight = diagnose.Strong
		}
		where := ""
		if on != "" {
			where = " of " + on
		}
		method := cmp.Or(auto.Facts.Str(link.FactMethod), "its autodetection")
		c.Says = fmt.Sprintf("Calico registered %s%s for {node}, but its InternalIP is %s", address, where, internal)
		togetherElsewhere(f, reg, &c)
		switch picked := auto.Facts.Str(link.FactPicked); {
		case picked == address:
			c.Says += fmt.Sprintf(": %s picks it", method)
		case picked != "":
			c.Says += fmt.Sprintf("; %s of Calico %s would pick %s now", method, auto.Facts.Str(link.FactCalico), picked)
		}
		if bridge {
			c.Says += bridgeNote(on)
		}
		if looked {
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{auto})...)
			if method := c.Args["method"].Said(); diagnose.TextsOf(auto, link.FactAlternatives)[method] != "" {
				c.Says += fmt.Sprintf("; %s would pick %s", method, internal)
			}
		}
		withSessions(f, &c, address)
		c.Covers = append(evidence.PathFollows(f, family, ""), diagnose.Covers(link.NodeUplink.ID, overlay.OverlayTunnels.ID,
			overlay.IPSetHosts.ID)...)
		out = append(out, c)
	}
	return out
}

// withSessions adds what the family's BGP sessions show about the address that Calico registered.
func withSessions(f diagnose.Findings, c *diagnose.Case, address string) {
	sessions := diagnose.Keep(f.Of(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		return diagnose.FamilyOf(r) == c.Family && r.Facts.Str(bgp.FactPeer) != ""
	})
	down := diagnose.Keep(sessions, func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
	if len(down) == 0 { // routes outlive a session
		c.Against = diagnose.Suggests(slices.Concat(sessions, crossing(f, c.Family))) // the others do reach it
	}
	c.For = append(c.For, diagnose.Shows(down)...)
	if slices.ContainsFunc(down, func(r diagnose.Finding) bool { return r.Facts.Str(bgp.FactBGPState) == "Passive" }) {
		c.Says += fmt.Sprintf("; sessions here stay Passive because the other ends must connect, and cannot connect to %s", address)
	}
	c.For = append(c.For, diagnose.Shows(diagnose.Keep(f.Elsewhere(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Facts.Str(bgp.FactPeer) == address
	}))...)
}

// crossing returns the results that prove that packets pass between this node's address and other nodes. It returns
// nothing if another result shows a loss.
func crossing(f diagnose.Findings, family int) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{overlay.EncapProof.ID, pod.PodPing.ID, pod.PodTCP.ID} {
		of := diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool {
			return diagnose.FamilyOf(r) == family && diagnose.NodeOf(r) != f.Node && r.Facts[overlay.FactUsed] != false &&
				(check == overlay.EncapProof.ID || diagnose.NodeOf(r) != "")
		})
		if slices.ContainsFunc(of, func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }) {
			return nil
		}
		out = append(out, diagnose.Keep(of, func(r diagnose.Finding) bool { return r.Status == probe.OK })...)
	}
	return out
}

// dockerBridge matches Docker's names for the bridges of its networks.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)

// isBridge reports whether an address belongs to a bridge. It uses the interface, or without a result about that the
// address: Docker gives its bridges the first address of 172.17.0.0/16 and of the networks after it.
func isBridge(name, kind, address string) bool {
	if name != "" {
		return kind == "bridge"
	}
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is4() {
		return false
	}
	b := a.As4()
	return b[0] == 172 && b[1] >= 17 && b[1] <= 31 && b[2] == 0 && b[3] == 1
}

// bridgeNote describes the bridge's origin, and from which version on Calico skips it.
func bridgeNote(name string) string {
	switch {
	case name == "":
		return "; that is the address docker gives a bridge"
	case dockerBridge.MatchString(name):
		return fmt.Sprintf("; %s is a bridge that 'docker network create' made, which first-found skips since Calico v3.25.0", name)
	case strings.HasPrefix(name, "podman"), strings.HasPrefix(name, "br-"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips since Calico v3.25.0", name)
	case strings.HasPrefix(name, "cni"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips since Calico v3.15", name)
	case strings.HasPrefix(name, "docker"), strings.HasPrefix(name, "virbr"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips: another method picked it", name)
	}
	return fmt.Sprintf("; %s is a bridge, which first-found skips in no version", name)
}
