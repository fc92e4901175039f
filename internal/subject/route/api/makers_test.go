package api

import (
	"errors"
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestRouteMakers combines both settings of programClusterRoutes with versions and kinds of pools, now and as v3.33
// interprets them.
func TestRouteMakers(t *testing.T) {
	t.Parallel()
	const both, none, felix, bird = probe.MakersBoth, probe.MakersNone, probe.MakersFelix, probe.MakersBIRD
	for name, c := range map[string]struct {
		version, felix, bird, ipip string
		by, next                   string // which daemon sets them now, and the fact about v3.33
		status                     probe.Status
	}{
		"IPIP as it comes":       {"v3.32.1", "", "", "Always", bird, facts.MakersMove, probe.Info},
		"no encapsulation":       {"v3.32.1", "", "", "Never", bird, facts.MakersStay, probe.OK},
		"old, IPIP":              {"v3.28.0", "", "", "CrossSubnet", bird, facts.MakersMove, probe.Info},
		"older than the setting": {"v3.30.0", "Enabled", "", "Always", bird, facts.MakersMove, probe.Info},
		"Felix alone, v3.31":     {"v3.31.2", "Enabled", "", "Never", both, facts.MakersStay, probe.OK},
		"both":                   {"v3.32.1", "Enabled", "", "Always", both, facts.MakersMove, probe.Warn},
		"both by hand":           {"v3.32.1", "Enabled", "Enabled", "Never", both, facts.MakersStay, probe.Warn},
		"neither":                {"v3.32.1", "", "Disabled", "Never", none, facts.MakersStay, probe.Warn},
		"neither, until v3.33":   {"v3.32.1", "", "Disabled", "Always", none, facts.MakersMove, probe.Warn},
		"they complement":        {"v3.32.1", "Enabled", "Disabled", "Never", felix, facts.MakersStay, probe.OK},
		"Felix's default set":    {"v3.32.1", "Disabled", "", "Always", bird, none, probe.Info},
		"BIRD's default set":     {"v3.32.1", "", "Enabled", "Always", bird, both, probe.Info},
		"both defaults set":      {"v3.32.1", "Disabled", "Enabled", "Always", bird, facts.MakersStay, probe.OK},
		"too new for it": {"v3.32.1", "EnabledIPIPOnly", "EnabledNoEncapOnly", "Always", bird,
			facts.MakersMove, probe.Info},
		"v3.33 as it comes":       {"v3.33.0", "", "", "Always", felix, "", probe.OK},
		"v3.33, no encapsulation": {"v3.33.0", "", "", "Never", bird, "", probe.OK},
		"v3.33, as before":        {"v3.33.0", "Disabled", "Enabled", "Always", bird, "", probe.OK},
		"v3.33, all Felix":        {"v3.33.0", "enabled", "Disabled", "Never", felix, "", probe.OK},
		"v3.33, swapped":          {"v3.33.0", "EnabledNoEncapOnly", "EnabledIPIPOnly", "Never", felix, "", probe.OK},
		"v3.33, swapped, IPIP":    {"v3.33.0", "EnabledNoEncapOnly", "EnabledIPIPOnly", "Always", bird, "", probe.OK},
		"v3.33, one set":          {"v3.33.0", "", "Enabled", "Always", both, "", probe.Warn},
		"v3.33, the other set":    {"v3.33.0", "Disabled", "", "Always", none, "", probe.Warn},
	} {
		s := ofVersion(c.version)
		s.Pools.Value = cluster.Specs{"p": {"cidr": "10.244.0.0/16", "ipipMode": c.ipip},
			"v": {"cidr": "10.245.0.0/16", "vxlanMode": "Always"}}
		s.Felix.Value = map[string]any{"programClusterRoutes": c.felix}
		s.Peering.Configs.Value = cluster.Specs{"default": {"programClusterRoutes": c.bird}}
		r := ask(t, s, facts.CheckRouteMakers)[0]
		pools := cluster.PoolTargets(s)
		if r.Status != c.status || r.Facts.Str(facts.NextMakers) != c.next || pools[0].Attrs[probe.AttrMakers] != c.by ||
			pools[1].Attrs[probe.AttrMakers] != "" {
			t.Errorf("%s: %+v, pools %+v", name, r, pools)
		}
		if got := r.Facts.Str(facts.Makers); (got != "") != (c.status == probe.Warn) || got != "" && got != c.by {
			t.Errorf("%s: wrong now: %q", name, got)
		}
	}
}

// ofVersion is a node whose calico-node has this version and runs BIRD.
func ofVersion(version string) *cluster.Snapshot {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value, s.Backend.Value, s.Info.Value.Spec = clustertest.Calico(3), "bird",
		map[string]any{"calicoVersion": version}
	return s
}

// TestRouteMakersNotKnown covers unknown settings, and clusters where the settings do not matter.
func TestRouteMakersNotKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*cluster.Snapshot)
		status probe.Status
		saw    string
	}{
		"no BIRD": {func(s *cluster.Snapshot) { s.Backend.Value = "vxlan" }, probe.Skip, "no BIRD"},
		"no Calico": {func(s *cluster.Snapshot) { s.Backend.Value, s.Calico.Value = "", nil }, probe.Skip,
			"no calico-node"},
		"all VXLAN": {func(s *cluster.Snapshot) { s.Pools.Value["p"]["vxlanMode"] = "CrossSubnet" }, probe.Skip,
			"Felix sets"},
		"not in use":   {func(s *cluster.Snapshot) { s.Pools.Value["p"]["disabled"] = true }, probe.Skip, "Felix sets"},
		"etcd":         {func(s *cluster.Snapshot) { s.Pools.Err = cluster.ErrInEtcd }, probe.Skip, probe.GapEtcd},
		"no version":   {func(s *cluster.Snapshot) { s.Info.Value.Spec = nil }, probe.Unknown, "version"},
		"unread":       {func(s *cluster.Snapshot) { s.Felix.Err = errors.New("broken") }, probe.Unknown, "broken"},
		"peers unread": {func(s *cluster.Snapshot) { s.Peering.Peers.Err = errors.New("broken") }, probe.OK, "BIRD sets"},
		"configs unread": {func(s *cluster.Snapshot) { s.Peering.Configs.Err = errors.New("broken") }, probe.Unknown,
			"broken"},
	} {
		s := ofVersion("v3.32.0")
		s.Pools.Value = cluster.Specs{"p": {"cidr": "10.244.0.0/16"}}
		s.Peering.Configs.Value = cluster.Specs{}
		c.change(s)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckRouteMakers), c.status, c.saw) })
		if by := s.MadeBy(true)[probe.AttrMakers]; by == probe.MakersNone || c.status == probe.Unknown && by != "" {
			t.Errorf("%s: made by %q", name, by)
		}
	}
}
