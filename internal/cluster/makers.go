package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Values of programClusterRoutes, of FelixConfiguration and of BGPConfiguration.
const (
	makesAll     = "Enabled"
	makesNone    = "Disabled"
	makesIPIP    = "EnabledIPIPOnly"
	makesNoEncap = "EnabledNoEncapOnly"
)

// The minor versions of Calico v3 from which on Felix has the setting, BIRD heeds its own, and the
// defaults of both are others.
const (
	makersFelix = 31
	MakersBIRD  = 32
	MakersSplit = 33
)

// Makers is who makes the routes to other nodes' blocks of pools without VXLAN, whose routes are
// Felix's in any case.
type Makers struct{ felix, bird string }

// makersIn is what the two settings, "" where they are not made, come to in Calico v3.MINOR. What a
// version does not know counts as its default (felix/config, ProgramClusterRoutes; confd, bgp_processor).
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

// Of is who makes the routes of a pool: one of the values of AttrMakers.
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

// Routed is a pool whose routes the settings are about.
type Routed struct {
	CIDR string
	IPIP bool
}

// RoutedPools are the pools in use that have no VXLAN.
func RoutedPools(s *Snapshot) []Routed {
	var out []Routed
	for _, t := range PoolTargets(s) {
		if t.Attrs[probe.AttrVXLAN] == "Never" && t.Attrs[probe.AttrDisabled] == "" {
			out = append(out, Routed{t.Name, t.Attrs[probe.AttrIPIP] != "Never"})
		}
	}
	return out
}

// Minor is that of Calico v3 on this node, false where the version is not known.
func (s *Snapshot) Minor() (int, bool) {
	var major, minor int
	n, _ := fmt.Sscanf(s.Version(), "v%d.%d", &major, &minor)
	return minor, n == 2 && major == 3
}

// MakersNow is who makes the routes on this node; false where that is not known.
func (s *Snapshot) MakersNow() (Makers, bool) {
	minor, known := s.Minor()
	if !known || s.Felix.Err != nil || s.Peering.Configs.Err != nil {
		return Makers{}, false
	}
	return s.MakersIn(minor), true
}

// MakersIn is the same of the node's settings in another version.
func (s *Snapshot) MakersIn(minor int) Makers {
	m := makersIn(minor, s.SetForFelix(), s.SetForBIRD())
	if s.Backend.Value != "bird" {
		m.bird = makesNone
	}
	return m
}

// SetForFelix is what Felix is configured to make: its programClusterRoutes.
func (s *Snapshot) SetForFelix() string { return FelixTarget(s).Attrs["programClusterRoutes"] }

// SetForBIRD is what BIRD is configured to make: programClusterRoutes of the BGPConfiguration.
func (s *Snapshot) SetForBIRD() string {
	set, _ := s.Peering.Configs.Value["default"]["programClusterRoutes"].(string)
	return set
}

// MadeBy is the attribute of a pool that says who makes its routes; nil where that is not known, or
// where neither does because no BIRD runs: then the network may know them.
func (s *Snapshot) MadeBy(ipip bool) map[string]string {
	m, known := s.MakersNow()
	by := m.Of(ipip)
	if !known || by == probe.MakersNone && s.Backend.Value != "bird" {
		return nil
	}
	return map[string]string{probe.AttrMakers: by}
}

// ByBIRD tells whether BIRD makes the routes of a pool on this node, as far as is known.
func ByBIRD(s *Snapshot) bool {
	who, known := s.MakersNow()
	return slices.ContainsFunc(RoutedPools(s), func(r Routed) bool {
		return !known || who.Of(r.IPIP) == probe.MakersBIRD || who.Of(r.IPIP) == probe.MakersBoth
	})
}
