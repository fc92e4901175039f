package cluster

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// versionIn is the version an image's tag names: calico/node:v3.32.1.
var versionIn = regexp.MustCompile(`:v?(\d+\.\d+(\.\d+)?)[^:/]*$`)

// calicoTarget is how calico-node on this node is to find its address. The
// version is that of the node's own image, for upgrades go node by node.
func calicoTarget(s *Snapshot) (probe.Target, bool) {
	spec, _ := calicoContainerOf(s.Calico)
	if spec == nil {
		return probe.Target{}, false
	}
	version, _ := s.info["calicoVersion"].(string)
	if m := versionIn.FindStringSubmatch(spec.Image); m != nil {
		version = "v" + m[1]
	}
	budget, _, _ := killBudget(spec)
	var internal []string
	for _, a := range InternalIPs(s.Node) {
		internal = append(internal, a.String())
	}
	return probe.Target{Kind: probe.KindCalico, Name: version, Node: s.Node.Name, Attrs: map[string]string{
		probe.AttrIP: given(s.Calico, "IP"), probe.AttrIP6: given(s.Calico, "IP6"),
		probe.AttrMethod:   given(s.Calico, "IP_AUTODETECTION_METHOD"),
		probe.AttrMethod6:  given(s.Calico, "IP6_AUTODETECTION_METHOD"),
		probe.AttrInternal: strings.Join(internal, ","), probe.AttrPodCIDRs: strings.Join(s.Node.Spec.PodCIDRs, ","),
		probe.AttrBudget:  strconv.Itoa(int(budget.Seconds())),
		probe.AttrLogs:    s.Calico.Namespace + "_" + s.Calico.Name + "_" + string(s.Calico.UID),
		probe.AttrAccount: s.Calico.Namespace + ":" + cmp.Or(s.Calico.Spec.ServiceAccountName, "default"),
	}}, true
}

// given is how an address is set, also when that is the pod's own field.
func given(calico *corev1.Pod, name string) string {
	env := envOf(calico, name)
	switch from := env.ValueFrom; {
	case from != nil && from.FieldRef != nil:
		return "(" + from.FieldRef.FieldPath + ")"
	case from != nil:
		return "(from elsewhere)"
	}
	return env.Value
}

// felixTarget is where this node's Felix is configured to answer: the pod's
// environment wins over FelixConfiguration, which wins over Felix's defaults.
func felixTarget(s *Snapshot) probe.Target {
	t := probe.Target{Kind: probe.KindFelix, Name: "felix", Node: s.Node.Name}
	if on, ok := felixEnabled(s); ok {
		t.Attrs = map[string]string{probe.AttrEnabled: strconv.FormatBool(on)}
	}
	if h, ok := s.felix["healthHost"].(string); ok && h != "" {
		t.Host = h
	}
	if p, ok := s.felix["healthPort"].(int64); ok && p > 0 {
		t.Port = int(p)
	}
	switch h := s.calicoEnv("FELIX_HEALTHHOST"); {
	case h != "":
		t.Host = h
	case t.Host != "": // of FelixConfiguration, which 'calico-node -felix-live' does not read
		t.Attrs = with(t.Attrs, probe.AttrProbed, "localhost")
	}
	if p, err := strconv.Atoi(s.calicoEnv("FELIX_HEALTHPORT")); err == nil && p > 0 {
		t.Port = p
	}
	for _, name := range probe.FelixSettings() {
		value := cmp.Or(s.calicoEnv("FELIX_"+strings.ToUpper(variable(name))), plain(s.felix[name]))
		if value == "" {
			continue
		}
		t.Attrs = with(t.Attrs, name, value)
	}
	return t
}

// with adds an attribute.
func with(attrs map[string]string, name, value string) map[string]string {
	if attrs == nil {
		attrs = map[string]string{}
	}
	attrs[name] = value
	return attrs
}

// variable is what Felix calls a setting in its environment.
func variable(name string) string {
	if name == "ipipMTU" {
		return "ipInIpMTU"
	}
	return name
}

// plain is a setting as text, "" when it is not set.
func plain(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// felixEnabled tells whether Felix's health endpoint is turned on, which it is
// not unless somebody says so; false when that cannot be told.
func felixEnabled(s *Snapshot) (on, known bool) {
	env := envOf(s.Calico, "FELIX_HEALTHENABLED")
	if env.Value != "" {
		on, err := strconv.ParseBool(env.Value)
		return on, err == nil
	}
	if spec, _ := calicoContainerOf(s.Calico); spec == nil || env.ValueFrom != nil || s.felixErr != nil {
		return false, false
	}
	on, _ = s.felix["healthEnabled"].(bool)
	return on, true
}

// calicoEnv is the literal value of a variable of the calico-node container.
func (s *Snapshot) calicoEnv(name string) string { return envOf(s.Calico, name).Value }

// envOf is a variable of the calico-node container, zero when it has none.
func envOf(calico *corev1.Pod, name string) corev1.EnvVar {
	if calico == nil {
		return corev1.EnvVar{}
	}
	for _, c := range calico.Spec.Containers {
		for _, e := range c.Env {
			if c.Name == calicoContainer && e.Name == name {
				return e
			}
		}
	}
	return corev1.EnvVar{}
}

// calicoContainer is the name of Felix's container in Calico's and Canal's pods.
const calicoContainer = "calico-node"
