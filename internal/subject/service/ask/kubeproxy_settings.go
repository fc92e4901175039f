package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/node"
)

// proxySettings holds kube-proxy's settings that change how it handles packets. Before v1.36, the fields in its
// /configz have their Go names, which differ in letter case.
type proxySettings struct {
	HostnameOverride string
	ClusterCIDR      string
	DetectLocalMode  string
	DetectLocal      struct{ ClusterCIDRs []string }
	IPTables         struct{ MasqueradeAll bool }
	NFTables         struct{ MasqueradeAll bool }
	Linux            struct{ MasqueradeAll bool }
}

// readProxySettings queries kube-proxy. If kube-proxy does not report its settings, it returns false.
func readProxySettings(ctx context.Context, metrics string) (out proxySettings, ok bool) {
	page, err := httpget.Get(ctx, "http://"+metrics+"/configz", httpget.Options{Most: 64 << 10})
	if err != nil || page.Code != http.StatusOK {
		return out, false
	}
	var all map[string]proxySettings
	if json.Unmarshal(page.Body, &all) != nil {
		return out, false
	}
	out, ok = all["kubeproxy.config.k8s.io"]
	return out, ok
}

// judge reports settings that conflict with Calico's policies, or with Services that use local endpoints.
func (s proxySettings) judge(node string, pools []netip.Prefix) probe.Result {
	// like GetHostname in k8s.io/component-helpers, node/util
	name := strings.ToLower(strings.TrimSpace(s.HostnameOverride))
	r := probe.Found(probe.OK, "kube-proxy's settings do not masquerade pods, and use this node's name")
	if by := s.masquerades(pools); by != "" {
		r = probe.Found(probe.Info, "kube-proxy masquerades packets from pods to Services (%s), so the Services' pods see the "+
			"node's address instead of the pod's", by).With(service.FactMasquerades, by)
	}
	if name != "" && node != "" && name != node {
		saw := r.Saw
		by, has := r.Facts[service.FactMasquerades]
		r = probe.Found(probe.Warn, "kube-proxy's hostnameOverride is %q, but Kubernetes calls this node %q: kube-proxy treats no "+
			"endpoint as local", name, node).With(service.FactProxyNode, name)
		if has {
			r.Saw += "; " + saw
			r = r.With(service.FactMasquerades, by)
		}
	}
	return r
}

// masquerades returns the setting that masquerades packets from pods to a Service, or "".
func (s proxySettings) masquerades(pools []netip.Prefix) string {
	if s.IPTables.MasqueradeAll || s.NFTables.MasqueradeAll || s.Linux.MasqueradeAll {
		return "masqueradeAll"
	}
	list := s.ClusterCIDR
	if list == "" {
		list = strings.Join(s.DetectLocal.ClusterCIDRs, ",")
	}
	if list == "" || s.DetectLocalMode != "" && s.DetectLocalMode != "ClusterCIDR" {
		return ""
	}
	var known []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return ""
		}
		known = append(known, p)
	}
	for _, of := range known { // an additional or unused pool proves nothing
		other := func(p netip.Prefix) bool { return p.Addr().Is4() != of.Addr().Is4() }
		within := func(p netip.Prefix) bool { return slices.ContainsFunc(known, p.Overlaps) }
		outside := slices.DeleteFunc(slices.Clone(pools), other)
		if len(outside) > 0 && !slices.ContainsFunc(outside, within) {
			return "clusterCIDR " + probe.OneLine(list) + ", which does not contain pool " + outside[0].String()
		}
	}
	return ""
}

// poolsOf returns the prefixes of Calico's IP pools.
func poolsOf(p *probe.Pass) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range p.Of(probe.KindPool) {
		if prefix, err := netip.ParsePrefix(t.Name); err == nil {
			out = append(out, prefix)
		}
	}
	return out
}

// proxyCertificate evaluates the certificate that kube-proxy presents to the API server, if kube-proxy is a daemon of
// the node. As a pod, kube-proxy uses a token. It returns false if no certificate is visible.
func proxyCertificate(h *probe.Host, now time.Time) (probe.Result, bool) {
	_, args, err := node.NodesDaemon(h, "kube-proxy")
	if err != nil || len(args) == 0 {
		return probe.Result{}, false
	}
	kubeconfig := node.FlagOf(args, "--kubeconfig")
	if text, err := h.ReadFile(node.FlagOf(args, "--config")); err == nil {
		var config struct {
			ClientConnection struct {
				Kubeconfig string `yaml:"kubeconfig"`
			} `yaml:"clientConnection"`
		}
		if yaml.Unmarshal(text, &config) == nil { // --config takes precedence over the other flags
			kubeconfig = cmp.Or(config.ClientConnection.Kubeconfig, kubeconfig)
		}
	}
	if kubeconfig == "" {
		return probe.Result{}, false
	}
	return node.ClientCertificate(h, kubeconfig, now)
}
