package api

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Settings of Felix that must be equal at both ends of a tunnel, and their defaults.
var tunnelSettings = []struct{ key, otherwise, mode string }{
	{"vxlanPort", "4789", "vxlanMode"}, {"vxlanVNI", "4096", "vxlanMode"}, {"vxlanEnabled", "", "vxlanMode"},
	{"ipipEnabled", "", "ipipMode"},
	{"wireguardEnabled", "false", "wireguardEnabled"}, {"wireguardEnabledV6", "false", "wireguardEnabledV6"},
}

// sameTunnels reports settings of tunnels that differ between this node and others.
func sameTunnels(s *cluster.Snapshot, report func(probe.Result)) {
	switch {
	case s.Felix.Err != nil:
		report(apicheck.UnreadOf("not known:", s.Felix.Err))
		return
	case len(s.Nodes) < 2:
		report(probe.Found(probe.Skip, "no other node to compare with"))
		return
	}
	mine, theirs := cluster.FelixSettings(s.FelixConfigs.Value, s.Node), s.Known().Felix()
	found := false
	for _, setting := range tunnelSettings {
		if !tunnelUsed(s, setting.mode) {
			continue
		}
		here := settingText(mine[setting.key], setting.otherwise)
		var others []string
		value := ""
		for i := range s.Nodes {
			there := settingText(theirs[i][setting.key], setting.otherwise)
			if s.Nodes[i].Name == s.Node.Name || there == here || cluster.NotCalicos(&s.Nodes[i]) != "" {
				continue
			}
			if value == "" {
				value = there
			}
			if there == value {
				others = append(others, s.Nodes[i].Name)
			}
		}
		if len(others) == 0 {
			continue
		}
		found = true
		from := settingFrom(s, setting.key)
		r := probe.Found(probe.Warn, "%s is %s on this node (%s) and %s on %s: both ends of a tunnel must use the same value",
			setting.key, unset(here), from, unset(value), cluster.Few(others))
		// If one node among many differs, the other nodes are not at fault.
		odd := from != defaultConfig || len(others)*2 > len(s.Nodes)-1 && len(s.Nodes) > 2
		if odd && (setting.key == "vxlanPort" || setting.key == "vxlanVNI") {
			r.Status = probe.Fail
		}
		report(r.On(setting.key).With(facts.Differs, []string{setting.key + "=" + here, setting.key + "=" + value}).
			With(facts.Elsewhere, others[:min(len(others), cluster.Sampled)]))
	}
	switch {
	case found:
	case s.Pools.Err != nil: // it is unknown which tunnels are used
		report(apicheck.Unread(s.Pools.Err))
	default:
		report(probe.Found(probe.OK, "the tunnel settings match those of the other nodes"))
	}
}

const defaultConfig = "FelixConfiguration default"

// settingFrom names the FelixConfiguration that sets a value for the node.
func settingFrom(s *cluster.Snapshot, key string) string {
	own := "node." + s.Node.Name
	for _, c := range s.FelixConfigs.Value {
		spec, _ := c.Object["spec"].(map[string]any)
		if _, set := spec[key]; set && c.GetName() == own {
			return "FelixConfiguration " + own
		}
	}
	for _, c := range s.FelixConfigs.Value {
		spec, _ := c.Object["spec"].(map[string]any)
		if _, set := spec[key]; set && c.GetName() != "default" && !strings.HasPrefix(c.GetName(), "node.") {
			return "FelixConfiguration " + probe.OneLine(c.GetName())
		}
	}
	return defaultConfig
}

// tunnelUsed reports whether a pool uses tunnels of a mode. WireGuard has a separate setting.
func tunnelUsed(s *cluster.Snapshot, mode string) bool {
	if mode != "vxlanMode" && mode != "ipipMode" {
		return true
	}
	for _, spec := range s.Pools.Value {
		if m, _ := spec[mode].(string); m == "Always" || m == "CrossSubnet" {
			return true
		}
	}
	return false
}

func settingText(v any, otherwise string) string {
	if v == nil {
		return otherwise
	}
	return probe.Quoted(fmt.Sprint(v))
}

func unset(v string) string {
	if v == "" {
		return "not set"
	}
	return v
}
