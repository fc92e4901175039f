package ask

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// routePodsCheck binds route.RoutePods to the function that runs it.
var routePodsCheck = answers.To(route.RoutePods, routePods)

// Facts of route-pods. FactNoRoute and FactWrong list pods with their addresses, and FactPods is the number of pods
// that the check examined.
const (
	factBare       probe.Fact = "bare"       // interfaces that have no route
	factInterfaces probe.Fact = "interfaces" // by address: the pod's own interface
)

// bareGrace is the maximum time for which a pod that is starting or terminating may have an interface without a
// route. The plugin creates the route immediately after the interface, even on a slow node.
const bareGrace = 1500 * time.Millisecond

// podLinks holds the interfaces of this node's pods, and the interfaces' routes.
type podLinks struct {
	up     map[string]bool // by name: whether the interface is up and has a carrier
	off    map[string]bool // by name: whether the interface was set down
	routes map[netip.Addr][]string
}

func readPodLinks() (podLinks, error) {
	links, err := kernel.Links()
	if err != nil {
		return podLinks{}, err
	}
	out := podLinks{up: map[string]bool{}, off: map[string]bool{}, routes: map[netip.Addr][]string{}}
	for _, l := range links {
		if node.IsPods(l) {
			out.up[l.Name], out.off[l.Name] = l.Up && l.Carrier, !l.Up
		}
	}
	for _, f := range []int{4, 6} {
		all, err := kernel.Routes(f, kernel.TableMain, math.MaxInt, func(r kernel.Route) bool {
			return r.To.IsSingleIP() && r.Type == 0
		})
		if err != nil {
			return podLinks{}, err
		}
		for _, r := range all {
			for _, h := range r.Hops {
				out.routes[r.To.Addr()] = append(out.routes[r.To.Addr()], h.Device)
			}
		}
	}
	return out, nil
}

// bare returns the interfaces that are up but have no route to a single address.
func (l podLinks) bare() []string {
	led := map[string]bool{}
	for _, devices := range l.routes {
		for _, d := range devices {
			led[d] = true
		}
	}
	var out []string
	for name, up := range l.up {
		if up && !led[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// interfaceOf returns the name of a pod's interface on the node. Calico's CNI plugin derives the name in the same way.
func interfaceOf(pod string) string {
	sum := sha1.Sum([]byte(strings.Replace(pod, "/", ".", 1))) //nolint:gosec // as Calico does
	return "cali" + hex.EncodeToString(sum[:])[:11]
}

func routePods(ctx context.Context, p *probe.Pass) {
	pods := p.Of(probe.KindLocal)
	if len(pods) == 0 {
		p.Report(node.Gap(p, probe.KindLocal, "no workload pod found on this node"))
		return
	}
	seen, err := readPodLinks()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	bare := seen.bare()
	if len(bare) > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(bareGrace):
		}
		if seen, err = readPodLinks(); err != nil {
			p.Report(node.Unseen(err))
			return
		}
		still := seen.bare()
		bare = slices.DeleteFunc(bare, func(name string) bool { return !slices.Contains(still, name) })
	}
	judged := false
	for _, f := range []int{4, 6} {
		if r, ok := seen.judge(node.SplitByFamily(pods)[f]); ok {
			judged = true
			p.Report(r.On(fmt.Sprintf("IPv%d", f)).With(probe.FactFamily, f))
		}
	}
	if !judged {
		p.Report(probe.Found(probe.Skip, "no known pod on this node has a Calico interface (cali*)"))
	}
	own := map[string]bool{}
	for _, t := range pods {
		own[interfaceOf(t.Name)] = true
	}
	bare = slices.DeleteFunc(bare, func(name string) bool { return own[name] })
	if len(bare) > 0 {
		p.Report(probe.Found(probe.Warn, "%d interfaces of other pods have no route: %s", len(bare), node.Some(bare)).
			On("other pods").With(factBare, node.First(bare)))
	}
}

// judge compares the pods in one address family with their interfaces. If no pod has an interface, it returns false.
func (l podLinks) judge(pods []probe.Target) (probe.Result, bool) {
	total := 0
	var missing, astray, bad, down []string
	interfaces := map[string]string{}
	for _, t := range pods {
		device := interfaceOf(t.Name)
		if _, there := l.up[device]; !there {
			continue // it belongs to another plugin, or was just removed
		}
		total++
		leads := l.routes[t.Addr.Unmap()]
		if slices.Contains(leads, device) && len(leads) == 1 {
			continue
		}
		if len(interfaces) < node.Listed {
			interfaces[t.Addr.String()] = device
		}
		if len(leads) == 0 {
			missing = append(missing, t.String())
			if l.off[device] {
				down = append(down, device)
			}
		} else {
			astray = append(astray, t.String())
			bad = append(bad, fmt.Sprintf("the route to %s leads to %s, but its interface is %s", t, strings.Join(leads, " and "), device))
		}
	}
	if total == 0 {
		return probe.Result{}, false
	}
	r := probe.Found(probe.OK, "%d of %d pods have their route", total, total)
	if len(missing) > 0 {
		text := fmt.Sprintf("%d of %d pods on this node have no route: %s", len(missing), total, node.Some(missing))
		if len(missing) == 1 {
			device := interfaces[leftAddress(missing[0])]
			text += "; its interface " + device + " " + l.state(device)
		}
		bad = append([]string{text}, bad...)
	}
	if len(bad) > 0 {
		r = probe.Found(probe.Fail, "%s", strings.Join(bad[:min(len(bad), 3)], "; ")).With(factInterfaces, interfaces).
			With(route.FactDown, node.First(down))
	}
	return r.With(node.FactPods, total).With(route.FactNoRoute, node.First(missing)).With(route.FactWrong,
		node.First(astray)), true
}

// state describes the state of an interface that has no route. The kernel removes the route when the interface
// is set down. Felix removes the route if the other end is down.
func (l podLinks) state(device string) string {
	switch {
	case l.off[device]:
		return "is down"
	case !l.up[device]:
		return "has no carrier: its other end, in the pod, is down"
	}
	return "is up"
}

// leftAddress returns the address at the end of a target's name.
func leftAddress(target string) string { return target[strings.LastIndex(target, " ")+1:] }
