package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// corefileKey is the key of CoreDNS' configuration in its ConfigMap.
const corefileKey = "Corefile"

// corefile is the zones for which a CoreDNS answers from the API, by its ConfigMap.
type corefile struct {
	name  string   // of the ConfigMap
	zones []string // without those of addresses; nil = not known
}

// readCorefile reads the configuration that the pods of CoreDNS mount, where all mount one.
func (c *Client) readCorefile(ctx context.Context, pods []corev1.Pod) (out corefile, err error) {
	namespace := ""
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			m := v.ConfigMap
			if m == nil || len(m.Items) > 0 &&
				!slices.ContainsFunc(m.Items, func(k corev1.KeyToPath) bool { return k.Key == corefileKey }) {
				continue
			}
			if out.name != "" && out.name != m.Name {
				return corefile{}, nil
			}
			out.name, namespace = m.Name, p.Namespace
		}
	}
	if out.name == "" {
		return out, nil
	}
	config, err := c.kube.CoreV1().ConfigMaps(namespace).Get(ctx, out.name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return out, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, out.name, err)
	}
	if text := config.Data[corefileKey]; len(text) <= corefileMost {
		out.zones = zonesOf(text)
	}
	return out, nil
}

// So many bytes of a Corefile, and so many zones in it, are read.
const (
	corefileMost = 64 << 10
	zonesMost    = 16
)

// otherPlugins can answer for names of the cluster beside the plugin kubernetes.
var otherPlugins = []string{"import", "rewrite", "template", "file", "auto", "hosts", "secondary", "k8s_external"}

// zonesOf are the zones that the plugin kubernetes of a Corefile names, without those of addresses. It is nil where
// they may not be all that is answered for: a plugin without zones has its server block's, other files can be
// imported, and other plugins answer too.
func zonesOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case slices.Contains(otherPlugins, words[0]), words[0] == "forward" && len(words) > 1 && words[1] != ".":
			return nil
		case words[0] == "kubernetes":
			named := slices.DeleteFunc(words[1:], func(w string) bool { return w == "{" })
			if len(named) == 0 || len(named) > zonesMost || strings.Contains(line, "{$") {
				return nil
			}
			for _, zone := range named {
				switch zone = strings.ToLower(strings.TrimSuffix(zone, ".")); {
				case zone == "": // all there is
					return nil
				case strings.HasSuffix(zone, ".arpa"), strings.Contains(zone, "/"), slices.Contains(out, zone):
				default:
					out = append(out, zone)
				}
			}
		}
	}
	return out
}

// zonesResult is the answer about the zones, false where they are not known.
func zonesResult(of Read[corefile]) (probe.Result, bool) {
	f := of.Value
	switch {
	case denied(of.Err):
		r := unread(of.Err)
		r.Status = probe.Skip
		return r, true
	case of.Err != nil:
		return unread(of.Err), true
	case len(f.zones) == 0:
		return probe.Result{}, false
	}
	zones := make([]string, len(f.zones))
	for i, zone := range f.zones {
		zones[i] = probe.Quoted(zone)
	}
	return probe.Found(probe.Info, "CoreDNS answers for %s by its plugin kubernetes (Corefile in ConfigMap %s)",
		strings.Join(zones, ", "), f.name).With(facts.Zones, zones).With(facts.ConfigMap, f.name), true
}
