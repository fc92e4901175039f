package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
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
	makersBIRD  = 32
	makersSplit = 33
)

// makers is who makes the routes to other nodes' blocks of pools without VXLAN, whose routes are
// Felix's in any case.
type makers struct{ felix, bird string }

// makersIn is what the two settings, "" where they are not made, come to in Calico v3.MINOR. What a
// version does not know counts as its default (felix/config, ProgramClusterRoutes; confd, bgp_processor).
func makersIn(minor int, felix, bird string) makers {
	known := func(value string, otherwise string, all ...string) string {
		for _, one := range all {
			if strings.EqualFold(one, value) {
				return one
			}
		}
		return otherwise
	}
	switch {
	case minor >= makersSplit:
		every := []string{makesAll, makesNone, makesIPIP, makesNoEncap}
		return makers{known(felix, makesIPIP, every...), known(bird, makesNoEncap, every...)}
	case minor >= makersBIRD:
		return makers{known(felix, makesNone, makesAll), known(bird, makesAll, makesNone)}
	case minor >= makersFelix:
		return makers{known(felix, makesNone, makesAll), makesAll}
	}
	return makers{makesNone, makesAll}
}

// of is who makes the routes of a pool: one of the values of AttrMakers.
func (m makers) of(ipip bool) string {
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

// routed is a pool whose routes the settings are about.
type routed struct {
	cidr string
	ipip bool
}

// routedPools are the pools in use that have no VXLAN.
func routedPools(s *Snapshot) []routed {
	var out []routed
	for _, t := range poolTargets(s) {
		if t.Attrs[probe.AttrVXLAN] == "Never" && t.Attrs[probe.AttrDisabled] == "" {
			out = append(out, routed{t.Name, t.Attrs[probe.AttrIPIP] != "Never"})
		}
	}
	return out
}

// minor is that of Calico v3 on this node, false where the version is not known.
func (s *Snapshot) minor() (int, bool) {
	var major, minor int
	n, _ := fmt.Sscanf(s.version(), "v%d.%d", &major, &minor)
	return minor, n == 2 && major == 3
}

// makersNow is who makes the routes on this node; false where that is not known.
func (s *Snapshot) makersNow() (makers, bool) {
	minor, known := s.minor()
	if !known || s.felix.Err != nil || s.peering.configs.Err != nil {
		return makers{}, false
	}
	return s.makersIn(minor), true
}

// makersIn is the same of the node's settings in another version.
func (s *Snapshot) makersIn(minor int) makers {
	m := makersIn(minor, s.setForFelix(), s.setForBIRD())
	if s.backend.Value != "bird" {
		m.bird = makesNone
	}
	return m
}

func (s *Snapshot) setForFelix() string { return felixTarget(s).Attrs["programClusterRoutes"] }

func (s *Snapshot) setForBIRD() string {
	set, _ := s.peering.configs.Value["default"]["programClusterRoutes"].(string)
	return set
}

// madeBy is the attribute of a pool that says who makes its routes; nil where that is not known, or
// where neither does because no BIRD runs: then the network may know them.
func (s *Snapshot) madeBy(ipip bool) map[string]string {
	m, known := s.makersNow()
	by := m.of(ipip)
	if !known || by == probe.MakersNone && s.backend.Value != "bird" {
		return nil
	}
	return map[string]string{probe.AttrMakers: by}
}

func routeMakers(s *Snapshot, report func(probe.Result)) {
	now, known := s.makersNow()
	minor, _ := s.minor()
	pools := routedPools(s)
	switch err := cmp.Or(s.Calico.Err, s.backend.Err, s.felix.Err, s.peering.configs.Err, s.pools.Err); {
	case err != nil:
		report(unreadOf("not known:", elsewhereSaid(err)))
	case s.Calico.Value == nil:
		report(probe.Found(probe.Skip, "no calico-node is known here"))
	case s.backend.Value != "bird":
		report(probe.Found(probe.Skip, "no BIRD of Calico's runs here that could make routes"))
	case len(pools) == 0:
		report(probe.Found(probe.Skip, "no pool without VXLAN is in use: Felix makes the routes of the others"))
	case !known:
		report(probe.Found(probe.Unknown, "the version of calico-node is not known"))
	default:
		report(s.judgeMakers(now, minor, pools))
	}
}

// judgeMakers says who makes the routes now, and before v3.33 who will from then on.
func (s *Snapshot) judgeMakers(now makers, minor int, pools []routed) probe.Result {
	settings := fmt.Sprintf("programClusterRoutes is %s in FelixConfiguration and %s in BGPConfiguration",
		cmp.Or(s.setForFelix(), "not set"), cmp.Or(s.setForBIRD(), "not set"))
	by := now.split(pools)
	r := probe.Found(probe.OK, "%s; %s", by.text(), settings)
	if minor >= makersBIRD && len(by[probe.MakersNone])+len(by[probe.MakersBoth]) > 0 {
		r.Status = probe.Warn
		r = r.With(facts.Makers, by.worst())
	}
	if minor >= makersSplit {
		return r
	}
	then := s.makersIn(makersSplit)
	if !slices.ContainsFunc(pools, func(p routed) bool { return now.of(p.ipip) != then.of(p.ipip) }) {
		return r.With(facts.NextMakers, facts.MakersStay)
	}
	if r.Status == probe.OK {
		r.Status = probe.Info
	}
	next := then.split(pools)
	r.Saw += "; from Calico v3.33 on " + next.text()
	return r.With(facts.NextMakers, cmp.Or(next.worst(), facts.MakersMove))
}

// division is pools by who makes their routes.
type division map[string][]string

func (m makers) split(pools []routed) division {
	out := division{}
	for _, p := range pools {
		out[m.of(p.ipip)] = append(out[m.of(p.ipip)], p.cidr)
	}
	return out
}

// worst is what is wrong with a division, "" for nothing.
func (d division) worst() string {
	for _, by := range []string{probe.MakersNone, probe.MakersBoth} {
		if len(d[by]) > 0 {
			return by
		}
	}
	return ""
}

// text is a division in words.
func (d division) text() string {
	var out []string
	for _, by := range [][2]string{{probe.MakersNone, "nobody makes"}, {probe.MakersBoth, "both Felix and BIRD make"},
		{probe.MakersFelix, "Felix makes"}, {probe.MakersBIRD, "BIRD makes"}} {
		if pools := d[by[0]]; len(pools) > 0 {
			out = append(out, fmt.Sprintf("%s the routes of %s", by[1], few(pools)))
		}
	}
	return strings.Join(out, ", ")
}
