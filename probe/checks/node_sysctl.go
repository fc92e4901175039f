package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// NodeSysctl asks for the kernel settings without which a node routes nothing for
// its pods; a tool that "hardens" a node turns them off, at the next boot too.
var NodeSysctl = &probe.Check{
	ID: "node-sysctl", Asks: "does the kernel forward packets, and which does it refuse by where they come from?",
	From: probe.FromNode,
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network", "netlink"}, Run: nodeSysctl,
	Doc: `Pods' packets pass a node only when it forwards. Felix turns forwarding on when it starts; something else can turn it off again.
ok: on. fail: off: no pod on this node reaches anything beyond it. skip: the kernel has no such setting, or Calico has no address of that family here.
rp_filter, on the interface with the node's address, on Calico's tunnels and pods' interfaces: 1 (strict) drops what comes in by another way than answers leave, 2 (loose) only what nobody could answer; the higher of an interface's own and that of all counts.
ok: as it is. info: strict, and the kernel has dropped packets for it since boot: a few are usual, many that grow are a node with two ways to its peers. warn: loose on a Calico up to v3.11, whose Felix does not start then ("Kernel's RPF check is set to 'loose'") unless IgnoreLooseRPF is set.`,
}

// Facts of node-sysctl.
const (
	FactRPFilter  probe.Fact = "rp_filter" // effective values by interface
	FactRPDropped probe.Fact = "rp_dropped"
)

// TargetRPFilter is node-sysctl's answer about rp_filter; the others are about
// forwarding.
const TargetRPFilter = "rp_filter"

func nodeSysctl(_ context.Context, p *probe.Pass) {
	own := p.Of(probe.KindSelf)
	has := func(f int) bool {
		return slices.ContainsFunc(own, func(t probe.Target) bool { return family(t.Addr) == f })
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
			r = probe.Found(probe.Fail, "0: this node does not forward packets, so its pods reach nothing beyond it")
		}
		p.Report(r.On(name))
	}
	if has(4) || len(own) == 0 { // IPv6 has no such setting
		p.Report(reversePath(p).On(TargetRPFilter))
	}
}

// uplinkName is the interface with the node's IPv4 address, "" where that cannot be told.
func uplinkName(p *probe.Pass) string {
	known, err := kernel.Links()
	if err != nil {
		return ""
	}
	if d, _ := uplink(p, known, 4); d != nil {
		return d.Name
	}
	return ""
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
	out := uplinkName(p)
	effective := map[string]int{"all": all}
	strict := all == 1
	for _, e := range entries {
		name := e.Name()
		pods := strings.HasPrefix(name, "cali")
		tunnel := slices.ContainsFunc(encapsulations,
			func(e encapsulation) bool { return e.family == 4 && e.device == name })
		if !pods && name != out && !tunnel {
			continue
		}
		value, err := kernel.Sysctl(p.Host, conf+name+"/rp_filter")
		if err != nil {
			continue // gone
		}
		value = max(value, all)
		if pods { // Felix sets them all alike
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
		r.Saw += fmt.Sprintf("; the kernel has dropped %d packets for it since boot", dropped)
	}
	if version := named(p, probe.KindCalico); all == 2 && refusesLoose(version) {
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; Felix of Calico %s does not start with a loose check for all, unless IgnoreLooseRPF is set", version)
	}
	if counted {
		r = r.With(FactRPDropped, dropped)
	}
	return r.With(FactRPFilter, effective)
}

// refusesLoose tells whether Felix of a version ends when it finds a loose check;
// v3.12 checks where packets come from by itself.
func refusesLoose(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "v%d.%d", &major, &minor)
	return n == 2 && (major < 3 || major == 3 && minor <= 11)
}

// reverseDropped is how many packets this check has cost, in this network namespace
// (from Linux 3.0).
func reverseDropped(h *probe.Host) (int, bool) {
	text, err := kernel.ReadProc(h, "net/netstat")
	if err != nil {
		return 0, false
	}
	return netCounter(text, "IPReversePathFilter")
}

// netCounter finds one of the kernel's counters: a line of names, then one of
// values, both behind the name of their family.
func netCounter(text, name string) (int, bool) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if i := slices.Index(names, name); i > 0 && i < len(f) && f[0] == names[0] {
			n, err := strconv.Atoi(f[i])
			return n, err == nil
		}
		names = f
	}
	return 0, false
}
