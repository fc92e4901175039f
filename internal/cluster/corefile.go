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
	err   error
}

// readCorefile reads the configuration that a pod of CoreDNS mounts.
func (c *Client) readCorefile(ctx context.Context, p *corev1.Pod) (out corefile) {
	for _, v := range p.Spec.Volumes {
		if m := v.ConfigMap; m != nil && (len(m.Items) == 0 ||
			slices.ContainsFunc(m.Items, func(k corev1.KeyToPath) bool { return k.Key == corefileKey })) {
			out.name = m.Name
			break
		}
	}
	if out.name == "" {
		return out
	}
	config, err := c.kube.CoreV1().ConfigMaps(p.Namespace).Get(ctx, out.name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		out.err = fmt.Errorf("reading ConfigMap %s/%s: %w", p.Namespace, out.name, err)
		return out
	}
	out.zones = zonesOf(config.Data[corefileKey])
	return out
}

// zonesOf are the zones that the plugin kubernetes of a Corefile names, without those of addresses. It is nil where
// they are not all in this text: a plugin without zones has its server block's, and other files can be imported.
func zonesOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "import":
			return nil
		case words[0] == "kubernetes":
			named := slices.DeleteFunc(words[1:], func(w string) bool { return w == "{" })
			if len(named) == 0 || strings.Contains(line, "{$") {
				return nil
			}
			for _, zone := range named {
				zone = strings.ToLower(strings.TrimSuffix(zone, "."))
				if !strings.HasSuffix(zone, ".arpa") && !slices.Contains(out, zone) {
					out = append(out, zone)
				}
			}
		}
	}
	return out
}

// result is the answer about the zones, false where they are not known.
func (f corefile) result() (probe.Result, bool) {
	switch {
	case denied(f.err):
		r := unread(f.err)
		r.Status = probe.Skip
		return r, true
	case f.err != nil:
		return unread(f.err), true
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
