package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// NodeState says how a node is set, so that it can be compared with one that works.
var NodeState = &probe.Check{
	ID: "node-state", Asks: "how is the node set, in what could make it behave unlike another?", From: probe.FromNode,
	Tags: []string{tagHost}, In: probe.Deep, Limit: 10 * time.Second,
	Access: []string{"host network", "netlink", "proc", "host processes", "NET_ADMIN", "SYS_PTRACE", "run", "uid 0",
		"etc/cni/net.d", "opt/cni/bin", "var/lib", "etc/resolv.conf"},
	Run: nodeState,
	Doc: `It judges nothing. Its answers are what "calico-probe run" compares with a baseline node when something is bad and no proven cause explains it: what differs is named under "compared with", and where it can touch what fails, the cause node-differs names it.
info, one for each area, in parts where it is long: sysctls of the network (interfaces of pods as one group, cali*), interfaces, special and static routes, permanent neighbour entries, routing rules, IPsec (XFRM) policies, chains and rules of firewalls that are neither Calico's nor kube-proxy's, queueing and programs on interfaces, the kubelet's, the runtime's and kube-proxy's configuration, limits of their processes, types and modes of the paths Calico needs, programs that change the network too, calico-node's environment as it runs, resolv.conf, the kernel. What belongs to the node alone (its name, addresses, MAC addresses) stands as <node>, <address>, <mac>; secrets are left out; a long value is cut, with a sum of the whole.
skip: this access method does not show that area, the node has none, or it could not be read.`,
}

// Facts of node-state.
const (
	FactItems   probe.Fact = "items"    // name → value of what the area has
	FactArea    probe.Fact = "area"     // one of the Area words
	FactLeftOut probe.Fact = "left_out" // how many items there was no room for
)

// The areas of node-state.
const (
	AreaSystem     = "system"
	AreaSysctls    = "sysctls"
	AreaInterfaces = "interfaces"
	AreaRoutes     = "routes"
	AreaNeighbours = "neighbours"
	AreaRules      = "routing-rules"
	AreaIPsec      = "ipsec"
	AreaFirewall   = "firewall"
	AreaQueues     = "queues"
	AreaKubelet    = "kubelet"
	AreaRuntime    = "runtime"      // as containerd says that it runs
	AreaContainerd = "runtime-file" // as its file has it
	AreaProxy      = "kube-proxy"
	AreaLimits     = "limits"
	AreaPaths      = "paths"
	AreaProcesses  = "processes"
	AreaCalico     = "calico-node"
	AreaResolver   = "resolver"
)

// items are what one area has: name → value.
type items map[string]string

// look is what the areas are read with.
type look struct {
	ctx   context.Context
	p     *probe.Pass
	h     *probe.Host
	links []kernel.Link
	out   string // the uplink's name
	own   neutral
	net   neutral // the uplink's name is left out too
}

// area is one part of a node's state.
type area struct {
	name string
	read func(look) (items, error)
}

var areas = []area{
	{AreaSystem, systemState}, {AreaSysctls, sysctlState}, {AreaInterfaces, linkState}, {AreaRoutes, routeState},
	{AreaNeighbours, neighbourState}, {AreaRules, ruleState}, {AreaIPsec, policyState}, {AreaFirewall, wallState},
	{AreaQueues, queueState}, {AreaKubelet, kubeletState}, {AreaRuntime, runtimeState}, {AreaContainerd, containerdState},
	{AreaProxy, proxyState}, {AreaLimits, limitState}, {AreaPaths, pathState}, {AreaProcesses, processState},
	{AreaCalico, calicoState}, {AreaResolver, resolverState},
}

func nodeState(ctx context.Context, p *probe.Pass) {
	links, _ := kernel.Links() // the area of interfaces says it
	l := look{ctx: ctx, p: p, h: p.Host, links: links}
	if d, _ := uplink(p, links, 4); d != nil {
		l.out = d.Name
	} else if d, _ := uplink(p, links, 6); d != nil {
		l.out = d.Name
	}
	l.own = neutralFor(p, links)
	l.net = l.own.with(l.out, "<uplink>")
	each(areas, func(a area) {
		got, err := a.read(l)
		if err != nil {
			// Not every node has every area, and nothing is judged: no answer is none that is missing.
			p.Report(probe.Found(probe.Skip, "not read: %v", err).On(a.name).With(FactArea, a.name))
			return
		}
		for _, r := range inParts(a.name, got) {
			p.Report(r)
		}
	})
}

// What one area may say: parts of so many bytes, each of which has to fit a line of the stream with the rest of its
// result.
const (
	mostParts = 5
	mostPart  = 3000
	mostText  = 160 // of a name, and of a value
)

// inParts are the results of an area: its items in order, as many as there is room for.
func inParts(name string, all items) []probe.Result {
	parts, sizes := []map[string]string{{}}, []int{0}
	left := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		shortKey, value := shortened(key), shortened(all[key])
		b, err := json.Marshal([]string{shortKey, value})
		last := len(parts) - 1
		switch {
		case err != nil:
			left++
			continue
		case sizes[last]+len(b) > mostPart && len(parts) == mostParts:
			left++
			continue
		case sizes[last]+len(b) > mostPart:
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
		r := probe.Found(probe.Info, "%d values", len(part)).On(target).With(FactArea, name).With(FactItems, part)
		if left > 0 {
			r.Saw += fmt.Sprintf("; %d of this area are left out", left)
			r = r.With(FactLeftOut, left)
		}
		out = append(out, r)
	}
	return out
}
