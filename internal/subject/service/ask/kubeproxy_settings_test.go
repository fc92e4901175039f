package ask

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
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

// TestProxyCertificate checks that the certificate of a kube-proxy that is a daemon is read through its configuration,
// and is reported only if it is a problem.
func TestProxyCertificate(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(30 * 24 * time.Hour)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: checktest.Certificate(t, "system:kube-proxy", end).Certificate[0]})
	config := "clientConnection: {kubeconfig: /etc/kubernetes/proxy.conf}\n"
	for name, c := range map[string]struct {
		args []string
		at   time.Time
		saw  string // "" = no result
	}{
		"by its configuration": {[]string{"--config=/etc/kubernetes/proxy.yaml"}, end.Add(time.Hour), "expired on "},
		"by its flag": {[]string{"--kubeconfig", "/etc/kubernetes/proxy.conf"}, end.Add(-31 * 24 * time.Hour),
			"is not valid before "},
		"valid":                {[]string{"--config=/etc/kubernetes/proxy.yaml"}, end.Add(-20 * 24 * time.Hour), "is valid until "},
		"without a kubeconfig": {[]string{"--master=http://127.0.0.1"}, end, ""},
	} {
		files := map[string]string{"etc/kubernetes/proxy.yaml": config,
			"etc/kubernetes/proxy.conf": "users: [{user: {client-certificate-data: " +
				base64.StdEncoding.EncodeToString(cert) + "}}]\n"}
		checktest.Process(files, 9, 1, "kube-proxy", 1, "", append([]string{"kube-proxy"}, c.args...)...)
		r, ok := proxyCertificate(checktest.Node(t, files), c.at)
		if ok != (c.saw != "") || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %v %+v", name, ok, r)
		}
	}
}
