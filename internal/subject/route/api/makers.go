package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func routeMakers(s *cluster.Snapshot, report func(probe.Result)) {
	now, known := s.MakersNow()
	minor, _ := s.Minor()
	pools := cluster.RoutedPools(s)
	switch err := cmp.Or(s.Calico.Err, s.Backend.Err, s.Felix.Err, s.Peering.Configs.Err, s.Pools.Err); {
	case err != nil:
		report(apicheck.UnreadOf("not known:", cluster.SeeCalicoPod(err)))
	case s.Calico.Value == nil:
		report(probe.Found(probe.Skip, "calico-node was not found on this node"))
	case s.Backend.Value != "bird":
		report(probe.Found(probe.Skip, "Calico runs no BIRD here that could set routes"))
	case len(pools) == 0:
		report(probe.Found(probe.Skip, "no pool without VXLAN is in use: Felix sets the routes of VXLAN pools"))
	case !known:
		report(probe.Found(probe.Unknown, "the version of calico-node is unknown"))
	default:
		report(judgeMakers(s, now, minor, pools))
	}
}

// judgeMakers judges which daemon sets the routes now, and before v3.33 also which will from then on.
func judgeMakers(s *cluster.Snapshot, now cluster.Makers, minor int, pools []cluster.Routed) probe.Result {
	settings := fmt.Sprintf("programClusterRoutes is %s in FelixConfiguration and %s in BGPConfiguration",
		cmp.Or(s.SetForFelix(), "not set"), cmp.Or(s.SetForBIRD(), "not set"))
	by := divide(now, pools)
	r := probe.Found(probe.OK, "%s; %s", by.text(), settings)
	if minor >= cluster.MakersBIRD && len(by[probe.MakersNone])+len(by[probe.MakersBoth]) > 0 {
		r.Status = probe.Warn
		r = r.With(facts.Makers, by.worst())
	}
	if minor >= cluster.MakersSplit {
		return r
	}
	then := s.MakersIn(cluster.MakersSplit)
	if !slices.ContainsFunc(pools, func(p cluster.Routed) bool { return now.Of(p.IPIP) != then.Of(p.IPIP) }) {
		return r.With(facts.NextMakers, facts.MakersStay)
	}
	if r.Status == probe.OK {
		r.Status = probe.Info
	}
	next := divide(then, pools)
	r.Saw += "; from Calico v3.33 on " + next.text()
	return r.With(facts.NextMakers, cmp.Or(next.worst(), facts.MakersMove))
}

// division is pools by the daemon that sets their routes.
type division map[string][]string

// divide divides pools by the daemon that sets their routes.
func divide(m cluster.Makers, pools []cluster.Routed) division {
	out := division{}
	for _, p := range pools {
		out[m.Of(p.IPIP)] = append(out[m.Of(p.IPIP)], p.CIDR)
	}
	return out
}

// worst is the worst problem of a division, "" for none.
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
	for _, by := range [][2]string{{probe.MakersNone, "no daemon sets"}, {probe.MakersBoth, "both Felix and BIRD set"},
		{probe.MakersFelix, "Felix sets"}, {probe.MakersBIRD, "BIRD sets"}} {
		if pools := d[by[0]]; len(pools) > 0 {
			out = append(out, fmt.Sprintf("%s the routes of %s", by[1], cluster.Few(pools)))
		}
	}
	return strings.Join(out, ", ")
}
