package ask

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestKubeProxySettings(t *testing.T) {
	t.Parallel()
	pools := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.99.0.0/24"),
		netip.MustParsePrefix("fd00:244::/64")}
	for config, c := range map[string]struct {
		status probe.Status
		saw    string
	}{
		`{"hostnameOverride":"node-x","mode":"nftables"}`:                                           {probe.Warn, `hostnameOverride is "node-x"`},
		`{"HostnameOverride":"node-x","IPTables":{"MasqueradeAll":true}}`:                           {probe.Warn, "endpoint as local; kube-proxy masquerades"},
		`{"iptables":{"masqueradeAll":true}}`:                                                       {probe.Info, "masqueradeAll"},
		`{"nftables":{"masqueradeAll":true},"hostnameOverride":"node-a"}`:                           {probe.Info, "masqueradeAll"},
		`{"clusterCIDR":"10.32.0.0/12"}`:                                                            {probe.Info, "clusterCIDR 10.32.0.0/12, which does not contain pool 10.244.0.0/16"},
		`{"hostnameOverride":" Node-A "}`:                                                           {probe.OK, ""},
		`{"hostnameOverride":""}`:                                                                   {probe.OK, ""},
		`{"clusterCIDR":"10.32.0.0/12","detectLocalMode":"BridgeInterface"}`:                        {probe.OK, ""},
		`{"clusterCIDR":"10.99.0.0/16"}`:                                                            {probe.OK, ""}, // of the second pool
		`{"clusterCIDR":"10.0.0.0/8"}`:                                                              {probe.OK, ""},
		`{"clusterCIDR":"10.244.128.0/17,fd00::/16"}`:                                               {probe.OK, ""},
		`{"clusterCIDR":"nonsense","DetectLocal":{"ClusterCIDRs":["10.32.0.0/12"]}}`:                {probe.OK, ""},
		`{"detectLocal":{"clusterCIDRs":["10.32.0.0/12"]},"Linux":null,"conntrack":{"min":131072}}`: {probe.Info, "clusterCIDR"},
	} {
		var all map[string]proxySettings
		must.Do(t, json.Unmarshal(fmt.Appendf(nil, `{"kubeproxy.config.k8s.io":%s}`, config), &all))
		r := all["kubeproxy.config.k8s.io"].judge("node-a", pools)
		if r.Status != c.status || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %v", config, r)
		}
	}
}
