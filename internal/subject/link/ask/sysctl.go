package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeSysctlCheck binds link.NodeSysctl to the function that runs it.
var nodeSysctlCheck = answers.To(link.NodeSysctl, nodeSysctl)

// Facts of node-sysctl.
const (
	factRPFilter  probe.Fact = "rp_filter" // effective values by interface
	factRPDropped probe.Fact = "rp_dropped"
)

func nodeSysctl(_ context.Context, p *probe.Pass) {
	own := p.Of(probe.KindSelf)
	has := func(f int) bool {
		return slices.ContainsFunc(own, func(t probe.Target) bool { return node.Family(t.Addr) == f })
	}
	want := map[string]bool{"net/ipv4/ip_forward": has(4) || len(own) == 0, "net/ipv6/conf/all/forwarding": has(6)}
	for name, needed := range want {
		value, err := kernel.Sysctl(p.Host, name)
		r := probe.Found(probe.OK, "%d", value)
		switch {
		case !needed:
			r = probe.Found(probe.Skip, "Calico has registered no address of that family for this node")
		case errors.Is(err, fs.ErrNotExist):
			r = probe.Found(probe.Skip, "this kernel has no such setting")
		case err != nil:
			r = probe.Failed(err)
		case value == 0:
			r = probe.Found(probe.Fail, "0: this node does not forward packets, so its pods cannot reach anything outside it")
		}
		p.Report(r.On(name))
	}
	if has(4) || len(own) == 0 { // IPv6 has no such setting
		p.Report(reversePath(p).On(link.TargetRPFilter))
	}
}

func reversePath(p *probe.Pass) probe.Result {
	const conf = "net/ipv4/conf/"
	all, err := kernel.Sysctl(p.Host, conf+"all/rp_filter")
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.Skip, "this kernel has no such setting")
	}
	if err != nil {
		return probe.Failed(err)
	}
	entries, err := os.ReadDir(filepath.Join(p.Host.Proc, "sys", conf))
	if err != nil {
		return probe.Failed(fmt.Errorf("listing interfaces: %w", err))
	}
	out := node.UplinkName(p)
	effective := map[string]int{"all": all}
	strict := all == 1
	for _, e := range entries {
		name := e.Name()
		pods := strings.HasPrefix(name, "cali")
		tunnel := slices.ContainsFunc(node.Encapsulations,
			func(e node.Encapsulation) bool { return e.Family == 4 && e.Device == name })
		if !pods && name != out && !tunnel {
			continue
		}
		value, err := kernel.Sysctl(p.Host, conf+name+"/rp_filter")
		if err != nil {
			continue // the interface is gone
		}
		value = max(value, all)
		if pods { // Felix sets the same value for all of them
			name = "cali*"
		} else {
			strict = strict || value == 1
		}
		effective[name] = max(effective[name], value)
	}
	var says []string
	for name, value := range effective {
		says = append(says, fmt.Sprintf("%s %d", name, value))
	}
	slices.Sort(says)
	dropped, counted := reverseDropped(p.Host)
	r := probe.Found(probe.OK, "%s", strings.Join(says, ", "))
	if counted && strict && dropped > 0 {
		r.Status = probe.Info
		r.Saw += fmt.Sprintf("; the kernel has dropped %d packets because of it since boot", dropped)
	}
	if version := node.Named(p, probe.KindCalico); all == 2 && refusesLoose(version) {
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; Felix of Calico %s does not start with a loose check (all 2) unless IgnoreLooseRPF is set", version)
	}
	if counted {
		r = r.With(factRPDropped, dropped)
	}
	return r.With(factRPFilter, effective)
}

// refusesLoose reports whether Felix in this version exits if rp_filter is loose. Felix v3.12 and later checks
// source addresses itself.
func refusesLoose(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "v%d.%d", &major, &minor)
	return n == 2 && (major < 3 || major == 3 && minor <= 11)
}

// reverseDropped returns the number of packets that rp_filter has dropped in this network namespace (from Linux 3.0).
func reverseDropped(h *probe.Host) (int, bool) {
	text, err := kernel.ReadProc(h, "net/netstat")
	if err != nil {
		return 0, false
	}
	return node.NetCounter(text, "IPReversePathFilter")
}
