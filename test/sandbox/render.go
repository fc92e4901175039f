package main

import (
	"embed"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	"github.com/calico-probe/calico-probe/test/sandbox/build"
)

//go:embed config
var configs embed.FS

// render fills in an embedded template.
func render(name string, data any) (string, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"lower": strings.ToLower, "plural": plural, "blockOf": blockOf,
	}).ParseFS(configs, "config/"+name)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("filling %s: %w", name, err)
	}
	return b.String(), nil
}

// plural returns the resource name of a kind of Calico.
func plural(kind string) string {
	k := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(k, "y"):
		return strings.TrimSuffix(k, "y") + "ies"
	case strings.HasSuffix(k, "s"):
		return k + "es"
	}
	return k + "s"
}

// block is an IPAM block as in Calico's objects.
type block struct {
	Node, CIDR, Flat string
	Family           int
	Slots            []int
}

func blockOf(node, cidr string) (block, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return block{}, err
	}
	b := block{Node: node, CIDR: cidr, Family: 4, Flat: strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(cidr)}
	if p.Addr().Is6() {
		b.Family = 6
	}
	for i := range 1 << (p.Addr().BitLen() - p.Bits()) {
		b.Slots = append(b.Slots, i)
	}
	return b, nil
}

// setting is the data of the templates.
type setting struct {
	Me      member
	Peers   []member // the other nodes
	Members []member
	Pause   string
	DNS     string
	StandIn bool // the stand-in for Calico
	Machine bool // nodes are virtual machines
}

func settingOf(m member) setting {
	s := setting{Me: m, Members: members(), Pause: build.Pause, DNS: dns4, Machine: guestImages != ""}
	for _, o := range members() {
		if o.Name != m.Name {
			s.Peers = append(s.Peers, o)
		}
	}
	return s
}
