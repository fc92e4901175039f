package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeStateCheck binds nodestate.NodeState to the function that runs it.
var nodeStateCheck = answers.To(nodestate.NodeState, nodeState)

// area is one part of a node's state.
type area struct {
	name string
	read func(look) (items, error)
}

var areas = []area{
	{nodestate.AreaSystem, systemState}, {nodestate.AreaSysctls, sysctlState}, {nodestate.AreaInterfaces, linkState},
	{nodestate.AreaRoutes, routeState},
	{nodestate.AreaNeighbours, neighbourState}, {nodestate.AreaRules, ruleState}, {nodestate.AreaIPsec, policyState},
	{nodestate.AreaFirewall, wallState},
	{nodestate.AreaQueues, queueState}, {nodestate.AreaKubelet, kubeletState}, {nodestate.AreaRuntime, runtimeState},
	{nodestate.AreaContainerd, containerdState},
	{nodestate.AreaProxy, proxyState}, {nodestate.AreaLimits, limitState}, {nodestate.AreaPaths, pathState},
	{nodestate.AreaProcesses, processState},
	{nodestate.AreaCalico, calicoState}, {nodestate.AreaResolver, resolverState},
}

func nodeState(ctx context.Context, p *probe.Pass) {
	links, _ := kernel.Links() // without links, the area of interfaces reports an error
	l := look{ctx: ctx, p: p, h: p.Host, links: links}
	if d, _ := node.Uplink(p, links, 4); d != nil {
		l.out = d.Name
	} else if d, _ := node.Uplink(p, links, 6); d != nil {
		l.out = d.Name
	}
	l.own = neutralFor(p, links)
	l.net = l.own.with(l.out, "<uplink>")
	node.Each(areas, func(a area) {
		got, err := a.read(l)
		if err != nil {
			// Not every node has every area, and the check does not judge. The result is therefore skip, not unknown.
			p.Report(probe.Found(probe.Skip, "not read: %v", err).On(a.name).With(nodestate.FactArea, a.name))
			return
		}
		for _, r := range splitParts(a.name, got) {
			p.Report(r)
		}
	})
}

// Limits on one area: the number of its parts, and the size of a part in bytes. A part and the rest of its result must
// fit in one line of the stream.
const (
	maxParts     = 5
	maxPartBytes = 3000
)

// splitParts returns the results for an area. They contain the area's items in order, up to the limit.
func splitParts(name string, all items) []probe.Result {
	parts, sizes := []map[string]string{{}}, []int{0}
	left := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		shortKey, value := shorten(key), shorten(all[key])
		b, err := json.Marshal([]string{shortKey, value})
		last := len(parts) - 1
		switch {
		case err != nil:
			left++
			continue
		case sizes[last]+len(b) > maxPartBytes && len(parts) == maxParts:
			left++
			continue
		case sizes[last]+len(b) > maxPartBytes:
			parts, sizes = append(parts, map[string]string{}), append(sizes, 0)
			last++
		}
		parts[last][shortKey] = value
		sizes[last] += len(b)
	}
	var out []probe.Result
	for i, part := range parts {
		target := name
		if i > 0 {
			target = fmt.Sprintf("%s %d", name, i+1)
		}
		r := probe.Found(probe.Info, "%d values", len(part)).On(target).With(nodestate.FactArea,
			name).With(nodestate.FactItems, part)
		if left > 0 {
			r.Saw += fmt.Sprintf("; %d more omitted", left)
			r = r.With(nodestate.FactLeftOut, left)
		}
		out = append(out, r)
	}
	return out
}
