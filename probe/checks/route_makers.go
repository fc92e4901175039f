package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// TargetMakers is route-blocks' answer about who is set to make the routes between nodes.
const TargetMakers = "programClusterRoutes"

// FactMakers is who makes the routes of some pools: MakersBoth or MakersNone.
const FactMakers probe.Fact = "makers"

// Words of FactMakers.
const (
	MakersBoth = "both"
	MakersNone = "none"
)

// makers compares the two settings that say whether Felix or BIRD makes the routes to pools without
// VXLAN; false where they complement each other, or are not both known.
func makers(p *probe.Pass) (probe.Result, bool) {
	backend := p.Of(probe.KindBackend)
	if len(backend) == 0 || backend[0].Name != "bird" || !since(p, 32) || len(p.Of(probe.KindFelix)) == 0 ||
		unlisted(p, probe.KindFelix) != nil || unlisted(p, probe.KindBackend) != nil {
		return probe.Result{}, false
	}
	usual := "Enabled"
	if since(p, 33) {
		usual = "EnabledNoEncapOnly"
	}
	felix, bird := cmp.Or(programmed(p), "Disabled"), cmp.Or(backend[0].Attrs[probe.AttrProgram], usual)
	var both, none []string
	for _, t := range p.Of(probe.KindPool) {
		if cmp.Or(t.Attrs[probe.AttrVXLAN], "Never") != "Never" || t.Attrs[probe.AttrDisabled] != "" {
			continue // Felix makes these in any case
		}
		ipip := cmp.Or(t.Attrs[probe.AttrIPIP], "Never") != "Never"
		switch byFelix, byBIRD := makes(felix, ipip), makes(bird, ipip); {
		case byFelix && byBIRD:
			both = append(both, t.Name)
		case !byFelix && !byBIRD:
			none = append(none, t.Name)
		}
	}
	set := fmt.Sprintf("programClusterRoutes is %s in FelixConfiguration and %s in BGPConfiguration", felix, bird)
	switch {
	case len(none) > 0:
		return probe.Found(probe.Warn, "nobody makes the routes of %s: %s", some(none), set).With(FactMakers, MakersNone), true
	case len(both) > 0:
		return probe.Found(probe.Warn, "both Felix and BIRD make the routes of %s: %s", some(both), set).
			With(FactMakers, MakersBoth), true
	}
	return probe.Result{}, false
}

// makes tells whether a value of the setting has the routes of a pool made.
func makes(setting string, ipip bool) bool {
	with := map[bool]string{true: felixIPIPOnly, false: "EnabledNoEncapOnly"}[ipip]
	return slices.ContainsFunc([]string{"Enabled", with}, func(one string) bool { return strings.EqualFold(one, setting) })
}
