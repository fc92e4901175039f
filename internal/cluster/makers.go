package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Values of the setting programClusterRoutes in FelixConfiguration and BGPConfiguration.
const (
	makesAll     = "Enabled"
	makesNone    = "Disabled"
	makesIPIP    = "EnabledIPIPOnly"
	makesNoEncap = "EnabledNoEncapOnly"
)

// The Calico v3 minor versions in which Felix got its setting, BIRD began to honour its setting, and both defaults
// changed.
const (
	makersFelix = 31
	MakersBIRD  = 32
	MakersSplit = 33
)

// Makers records which program creates the routes to other nodes' blocks in pools without VXLAN. In VXLAN pools, Felix
// always creates them.
type Makers struct{ felix, bird string }

// makersIn evaluates the two settings for Calico v3.MINOR; "" = unset. An unknown value has the same effect as the
// version's default (felix/config, ProgramClusterRoutes; confd, bgp_processor).
func makersIn(minor int, felix, bird string) Makers {
	known := func(value string, otherwise string, all ...string) string {
		for _, one := range all {
			if strings.EqualFold(one, value) {
				return one
			}
		}
		return otherwise
	}
	switch {
	case minor >= MakersSplit:
		every := []string{makesAll, makesNone, makesIPIP, makesNoEncap}
		return Makers{known(felix, makesIPIP, every...), known(bird, makesNoEncap, every...)}
	case minor >= MakersBIRD:
		return Makers{known(felix, makesNone, makesAll), known(bird, makesAll, makesNone)}
	case minor >= makersFelix:
		return Makers{known(felix, makesNone, makesAll), makesAll}
	}
	return Makers{makesNone, makesAll}
}

// Of returns the program that creates a pool's routes: one of the values of AttrMakers.
func (m Makers) Of(ipip bool) string {
	makes := func(set string) bool {
		return set == makesAll || set == makesNoEncap && !ipip || set == makesIPIP && ipip
	}
	switch felix, bird := makes(m.felix), makes(m.bird); {
	case felix && bird:
		return probe.MakersBoth
	case felix:
		return probe.MakersFelix
	case bird:
		return probe.MakersBIRD
	}
	return probe.MakersNone
}

// Routed is a pool to which the settings apply.
type Routed struct {
	CIDR string
	IPIP bool
}

// RoutedPools returns the pools in use without VXLAN.
func RoutedPools(s *Snapshot) []Routed {
	var out []Routed
	for _, t := range PoolTargets(s) {
		if t.Attrs[probe.AttrVXLAN] == "Never" && t.Attrs[probe.AttrDisabled] == "" {
			out = append(out, Routed{t.Name, t.Attrs[probe.AttrIPIP] != "Never"})
		}
	}
	return out
}

// Minor returns the minor version of Calico v3 on this node, or false if the version is unknown.
func (s *Snapshot) Minor() (int, bool) {
	var major, minor int
	n, _ := fmt.Sscanf(s.Version(), "v%d.%d", &major, &minor)
	return minor, n == 2 && major == 3
}

// MakersNow returns which programs create the routes on this node, or false if unknown.
func (s *Snapshot) MakersNow() (Makers, bool) {
	minor, known := s.Minor()
	if !known || s.Felix.Err != nil || s.Peering.Configs.Err != nil {
		return Makers{}, false
	}
	return s.MakersIn(minor), true
}

// MakersIn evaluates the node's settings for another Calico version.
func (s *Snapshot) MakersIn(minor int) Makers {
	m := makersIn(minor, s.SetForFelix(), s.SetForBIRD())
	if s.Backend.Value != "bird" {
		m.bird = makesNone
	}
	return m
}

// SetForFelix returns Felix's setting programClusterRoutes.
func (s *Snapshot) SetForFelix() string { return FelixTarget(s).Attrs["programClusterRoutes"] }

// SetForBIRD returns the BGPConfiguration's programClusterRoutes.
func (s *Snapshot) SetForBIRD() string {
	set, _ := s.Peering.Configs.Value["default"]["programClusterRoutes"].(string)
	return set
}

// MadeBy returns the pool attribute that names the creator of its routes. It is nil if the creator is unknown. It is
// also nil if BIRD does not run and so neither program creates routes: the network itself may then have the routes.
func (s *Snapshot) MadeBy(ipip bool) map[string]string {
	m, known := s.MakersNow()
	by := m.Of(ipip)
	if !known || by == probe.MakersNone && s.Backend.Value != "bird" {
		return nil
	}
	return map[string]string{probe.AttrMakers: by}
}

// ByBIRD reports whether BIRD is known to create the routes of a pool on this node.
func ByBIRD(s *Snapshot) bool {
	who, known := s.MakersNow()
	return slices.ContainsFunc(RoutedPools(s), func(r Routed) bool {
		return !known || who.Of(r.IPIP) == probe.MakersBIRD || who.Of(r.IPIP) == probe.MakersBoth
	})
}
