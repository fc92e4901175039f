// Package autodetect determines which address calico-node picks for the node. It follows the rules of the Calico
// version in use. Node.Detect is its entry point:
//
//	interfaces and InternalIPs of a Node, a method → Detect → a Choice: interface and address
//
// The package does not read anything from the node. Source: node/pkg/lifecycle/startup/autodetection in
// projectcalico/calico, and pkg/startup in projectcalico/node before v3.20.
package autodetect

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Interface is one network interface. Its addresses are in the kernel's order.
type Interface struct {
	Index int
	Name  string
	Kind  string // "bridge", "veth", "device", ... as in the kernel
	Addrs []netip.Prefix
}

// Node holds the input for a detection.
type Node struct {
	Interfaces []Interface
	Internal   []netip.Addr // the Kubernetes Node's InternalIPs
	Version    string       // Calico version: "v3.24.1"; a version that cannot be parsed counts as the newest
	// Reach returns the source address that the kernel uses for a destination in an address family. The destination is
	// an address, or a name to resolve.
	Reach func(destination string, family int) (netip.Addr, error)
}

// Choice is the result of a method.
type Choice struct {
	Interface string // "" if no interface has the address
	Kind      string
	Addr      netip.Prefix
}

func (c Choice) String() string {
	if c.Interface == "" {
		return c.Addr.Addr().String()
	}
	return fmt.Sprintf("%s on %s (%s)", c.Addr.Addr(), c.Interface, c.Kind)
}

// errNoAddress reports that a method finds no address.
var errNoAddress = errors.New("finds no address")

// ErrMethod reports an unknown method. calico-node exits if it gets one.
var ErrMethod = errors.New("is not an autodetection method")

// First is calico-node's default method.
const First = "first-found"

// Detect picks an address of the given family, 4 or 6. The method has the form of IP_AUTODETECTION_METHOD:
// "first-found", "can-reach=8.8.8.8", "interface=eth.*", "skip-interface=ens.*", "cidr=10.0.0.0/8" or
// "kubernetes-internal-ip". "" means first-found.
func (n Node) Detect(method string, family int) (Choice, error) {
	name, value, _ := strings.Cut(method, "=")
	switch name {
	case "", First:
		return n.walk(family, nil, excluded(n.Version), nil)
	case "interface":
		return n.walk(family, split(value), nil, nil)
	case "skip-interface":
		return n.walk(family, nil, append(excluded(n.Version), split(value)...), nil)
	case "cidr":
		var within []netip.Prefix
		for _, c := range split(value) {
			p, err := netip.ParsePrefix(c)
			if err != nil {
				return Choice{}, fmt.Errorf("%q %w: %w", method, errNoAddress, err)
			}
			within = append(within, p)
		}
		return n.walk(family, nil, nil, within)
	case "can-reach":
		return n.reaching(value, family)
	case "kubernetes-internal-ip":
		for _, a := range n.Internal {
			if familyOf(a) != family {
				continue
			}
			c := n.placed(a)
			if c.Interface == "" { // Calico then has no prefix for the address
				return Choice{}, fmt.Errorf("%s %w: the InternalIP %s is on no local interface", method, errNoAddress, a)
			}
			return c, nil
		}
		return Choice{}, fmt.Errorf("%s %w: the node has no InternalIP of that family", method, errNoAddress)
	}
	return Choice{}, fmt.Errorf("%q %w", method, ErrMethod)
}

// walk returns the first address of the first interface that matches. Like calico-node, it visits interfaces in
// reverse kernel order, which is mostly from newest to oldest. It ignores the state and carrier of interfaces.
func (n Node) walk(family int, include, exclude []string, within []netip.Prefix) (Choice, error) {
	in, err := patterns(include)
	if err != nil {
		return Choice{}, err
	}
	out, err := patterns(exclude)
	if err != nil {
		return Choice{}, err
	}
	for _, i := range slices.Backward(n.Interfaces) {
		if in != nil && !in.MatchString(i.Name) || out != nil && out.MatchString(i.Name) {
			continue
		}
		for _, p := range i.Addrs {
			if familyOf(p.Addr()) != family || !p.Addr().IsGlobalUnicast() {
				continue
			}
			if within != nil && !slices.ContainsFunc(within,
				func(w netip.Prefix) bool { return w.Contains(p.Addr()) }) {
				continue
			}
			return Choice{i.Name, i.Kind, p}, nil
		}
	}
	return Choice{}, errNoAddress
}

// patterns joins expressions in the same way as calico-node. Any expression may match, and it may
// match anywhere in the name unless it is anchored.
func patterns(list []string) (*regexp.Regexp, error) {
	if len(list) == 0 {
		return nil, nil
	}
	re, err := regexp.Compile("(" + strings.Join(list, ")|(") + ")")
	if err != nil {
		return nil, fmt.Errorf("an interface expression %w: %w", errNoAddress, err)
	}
	return re, nil
}

// reaching returns the source address for a destination. It returns an error if no interface has that address.
func (n Node) reaching(destination string, family int) (Choice, error) {
	if n.Reach == nil {
		return Choice{}, fmt.Errorf("can-reach=%s %w: the kernel was not queried", destination, errNoAddress)
	}
	a, err := n.Reach(destination, family)
	if err != nil {
		return Choice{}, fmt.Errorf("can-reach=%s %w: %w", destination, errNoAddress, err)
	}
	if familyOf(a) != family {
		return Choice{}, fmt.Errorf("can-reach=%s %w of that family", destination, errNoAddress)
	}
	c := n.placed(a)
	if c.Interface == "" {
		return Choice{}, fmt.Errorf("can-reach=%s %w: %s is on no local interface", destination, errNoAddress, a)
	}
	return c, nil
}

// placed finds the interface that has an address.
func (n Node) placed(a netip.Addr) Choice {
	for _, i := range n.Interfaces {
		for _, p := range i.Addrs {
			if p.Addr() == a {
				return Choice{i.Name, i.Kind, p}
			}
		}
	}
	return Choice{Addr: netip.PrefixFrom(a, a.BitLen())}
}

func split(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func familyOf(a netip.Addr) int {
	if a.Is4() || a.Is4In6() {
		return 4
	}
	return 6
}

// excluded lists the interfaces that first-found ignores in a given Calico version.
func excluded(version string) []string {
	v := parse(version)
	// A change may be released in two release lines: the current line and the one before it.
	from := func(older, newer int) bool {
		return !v.below(3, 24, newer) || !v.below(3, 23, older) && v.below(3, 24, 0)
	}
	if from(4, 3) {
		list := []string{"^docker.*", "^cbr.*", "^dummy.*", "^virbr.*", "^lxcbr.*", "^veth.*", "^lo", "^cali.*",
			"^tunl.*", "^flannel.*", "^kube-ipvs.*", "^cni.*"}
		if from(5, 4) {
			list = append(list, "^vxlan.calico", "^vxlan-v6.calico", "^wireguard.cali", "^wg-v6.cali")
		}
		if !v.below(3, 24, 6) {
			list = append(list, "^nodelocaldns.*")
		}
		if !v.below(3, 25, 0) {
			list = append(list, "^podman.*", "^br-.*")
		}
		return list
	}
	list := []string{"docker.*", "cbr.*", "dummy.*", "virbr.*", "lxcbr.*", "veth.*", "lo", "cali.*", "tunl.*",
		"flannel.*"}
	if !v.below(3, 1, 0) {
		list = append(list, "kube-ipvs.*")
	}
	if !v.below(3, 15, 0) {
		list = append(list, "cni.*")
	}
	return list
}

// Since returns the first Calico version that has a method, or "" if all versions have it.
func Since(method string) string {
	name, _, _ := strings.Cut(method, "=")
	return map[string]string{"cidr": "v3.16", "kubernetes-internal-ip": "v3.22", "skip-interface": "v3.0"}[name]
}

// Redetects reports whether a calico-node version repeats the detection every minute, and not only at startup.
func Redetects(version string) bool { return !parse(version).below(3, 16, 0) }

// Knows reports whether a Calico version supports a method.
func Knows(version, method string) bool {
	since := Since(method)
	if since == "" {
		return true
	}
	s := parse(since)
	return !parse(version).below(s[0], s[1], s[2])
}

type release [3]int

func (r release) below(major, minor, patch int) bool {
	return slices.Compare(r[:], []int{major, minor, patch}) < 0
}

// parse reads "v3.24.1" and "3.24". If it cannot parse a version, it treats the version as the newest.
func parse(version string) release {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	r := release{}
	for i, part := range strings.SplitN(version, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return release{1 << 20}
		}
		r[i] = n
	}
	return r
}
