package api

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// zonesResult returns the result about the DNS servers' zones, or false if the zones are unknown.
func zonesResult(of cluster.Read[cluster.Corefile]) (probe.Result, bool) {
	f := of.Value
	switch {
	case cluster.Denied(of.Err):
		r := apicheck.Unread(of.Err)
		r.Status = probe.Skip
		return r, true
	case of.Err != nil:
		return apicheck.Unread(of.Err), true
	case len(f.Zones) == 0:
		return probe.Result{}, false
	}
	zones := make([]string, len(f.Zones))
	for i, zone := range f.Zones {
		zones[i] = probe.Quoted(zone)
	}
	return probe.Found(probe.Info, "CoreDNS serves %s with its kubernetes plugin (Corefile in ConfigMap %s)",
		strings.Join(zones, ", "), f.Name).With(facts.Zones, zones).With(facts.ConfigMap, f.Name), true
}
