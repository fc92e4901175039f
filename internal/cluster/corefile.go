package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// corefileKey is the ConfigMap key for CoreDNS' configuration.
const corefileKey = "Corefile"

// Corefile lists the zones that CoreDNS serves from the API, according to its ConfigMap.
type Corefile struct {
	Name  string   // of the ConfigMap
	Zones []string // without reverse zones; nil = unknown
}

// readCorefile reads the ConfigMap that the CoreDNS pods mount, if all of them mount the same ConfigMap.
func (c *Client) readCorefile(ctx context.Context, pods []corev1.Pod) (out Corefile, err error) {
	namespace := ""
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			m := v.ConfigMap
			if m == nil || len(m.Items) > 0 &&
				!slices.ContainsFunc(m.Items, func(k corev1.KeyToPath) bool { return k.Key == corefileKey }) {
				continue
			}
			if out.Name != "" && out.Name != m.Name {
				return Corefile{}, nil
			}
			out.Name, namespace = m.Name, p.Namespace
		}
	}
	if out.Name == "" {
		return out, nil
	}
	config, err := c.kube.CoreV1().ConfigMaps(namespace).Get(ctx, out.Name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return out, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, out.Name, err)
	}
	if text := config.Data[corefileKey]; len(text) <= maxCorefile {
		out.Zones = zonesOf(text)
	}
	return out, nil
}

// The maximum number of bytes and of zones to read from a Corefile.
const (
	maxCorefile = 64 << 10
	maxZones    = 16
)

// otherPlugins are the plugins, other than the plugin kubernetes, that can answer queries for cluster names.
var otherPlugins = []string{"import", "rewrite", "template", "file", "auto", "hosts", "secondary", "k8s_external"}

// zonesOf returns the zones of a Corefile's plugin kubernetes, without reverse zones. It returns nil if the list may be
// incomplete: a plugin without zones uses its server block's zones, files can be imported, and other plugins can
// answer.
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
			if len(named) == 0 || len(named) > maxZones || strings.Contains(line, "{$") {
				return nil
			}
			for _, zone := range named {
				switch zone = strings.ToLower(strings.TrimSuffix(zone, ".")); {
				case zone == "": // there are no further zones
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
