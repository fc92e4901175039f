package ask

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// sortOutAccepting removes chains that have a drop policy but certainly accept packets between a pod on this
// node and a pod on another node. It removes only chains whose rules it can read and parse.
func (w *walls) sortOutAccepting(p *probe.Pass, family int) {
	_, shut, _ := w.dropping()
	flows := bothWays(podFlows(p), family)
	if len(shut) == 0 || len(flows) == 0 {
		return
	}
	all, err := kernel.Walls(p.Host, func(table, _ string) bool {
		return slices.ContainsFunc(w.drops, func(c kernel.Chain) bool { return table == tableOf(c) })
	})
	if err != nil { // chains that were not read count as dropping
		return
	}
	for i := len(w.drops) - 1; i >= 0; i-- {
		c, wall := w.drops[i], w.dropsIn[i]
		at := slices.IndexFunc(all, func(o kernel.Wall) bool {
			return o.Name == c.Name && o.Table == tableOf(c) && o.Hook == "forward" && o.Legacy == (wall == inLegacy) &&
				(c.Family == 0 || o.Family == map[int]string{4: "ip", 6: "ip6"}[c.Family])
		})
		refused := func(f flow) bool { accepted, _ := f.passes(all, all[at], 0); return !accepted }
		if at >= 0 && slices.Contains(shut, chainOf(c, wall)) && !slices.ContainsFunc(flows, refused) {
			w.drops, w.dropsIn = slices.Delete(w.drops, i, i+1), slices.Delete(w.dropsIn, i, i+1)
			w.passes = append(w.passes, chainOf(c, wall))
		}
	}
}

// tableOf returns a chain's table. For legacy iptables, that is always filter here.
func tableOf(c kernel.Chain) string {
	if c.Table == "" {
		return "filter"
	}
	return c.Table
}

// bothWays are the flows of a family: from a pod here, and the replies to a pod elsewhere.
func bothWays(flows []flow, of int) []flow {
	var out []flow
	for _, f := range flows {
		if node.Family(f.from) != of {
			continue
		}
		out = append(out, f)
		if way, known := node.LookupFrom(f.from, netip.Addr{}, ""); known {
			out = append(out, flow{from: f.to, to: f.from, out: way.Device})
		}
	}
	return out
}

// passes reports whether a chain and its jump targets certainly accept the flow. over reports that later rules may not
// see the flow.
func (f flow) passes(all []kernel.Wall, w kernel.Wall, depth int) (accepted, over bool) {
	for _, text := range w.Rules {
		does, to, fits := f.meets(text)
		if fits == no {
			continue
		}
		switch does {
		case "accept":
			if fits == yes {
				return true, true
			}
		case "drop", "reject":
			return false, true
		case "return":
			return false, fits == maybe
		case "jump", "goto":
			i := chainNamed(all, w, to)
			if i < 0 || depth == maxJumps {
				return false, true
			}
			accepted, over := f.passes(all, all[i], depth+1)
			switch {
			case accepted && fits == maybe:
				continue // the rule might not match, so the rules after it count
			case accepted, over, does == "goto":
				return accepted, true
			}
		default:
			if strings.Contains(text, " vmap") { // it may drop the flow
				return false, true
			}
		}
	}
	return false, w.More > 0
}
