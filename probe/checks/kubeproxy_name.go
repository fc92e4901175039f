package checks

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// TargetProxyName is kubeproxy-health's answer about the node's name that kube-proxy goes by.
const TargetProxyName = "node name"

// proxyName says whether kube-proxy takes itself for another node, by the configuration that it says it has
// (configz, which has the flag --hostname-override in it too); false where it does not say, or sets none.
func proxyName(ctx context.Context, h *probe.Host, metrics string) (probe.Result, bool) {
	page, err := httpget.Get(ctx, "http://"+metrics+"/configz", httpget.Way{})
	if err != nil || page.Code != http.StatusOK || h.Node == "" {
		return probe.Result{}, false
	}
	return proxyNameIn(page.Body, h.Node)
}

func proxyNameIn(configz []byte, node string) (probe.Result, bool) {
	var of map[string]struct {
		Name string `json:"HostnameOverride"` // the decoder takes it in any case of letters
	}
	if json.Unmarshal(configz, &of) != nil {
		return probe.Result{}, false
	}
	name := strings.TrimSpace(of["kubeproxy.config.k8s.io"].Name)
	switch {
	case name == "":
		return probe.Result{}, false
	case strings.EqualFold(name, node):
		return probe.Found(probe.OK, "%q, the name Kubernetes uses", name).With(factName, name), true
	}
	return probe.Found(probe.Fail, "kube-proxy takes this node for %q, and Kubernetes calls it %q: it knows no endpoint as local", name,
		node).With(factName, name).With(probe.FactReason, "other"), true
}
