package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment holds the variables of the calico-node container, as the kubelet resolves them.
type environment struct {
	vars map[string]Read[string] // the variables that are set; if there is an error, the value is unknown
	part error                   // reason why further variables may be set; nil = the list is complete
}

// configMaps holds the ConfigMaps that supply the environment, by name.
type configMaps map[string]Read[map[string]string]

// maxConfigMaps limits the number of ConfigMaps that are read: Calico's manifests have two.
const maxConfigMaps = 5

// named returns a ConfigMap. A ConfigMap that was not read is unknown, not empty.
func (m configMaps) named(name string) Read[map[string]string] {
	if config, is := m[name]; is {
		return config
	}
	return Read[map[string]string]{Err: fmt.Errorf("ConfigMap %s was not read: the limit is %d", name, maxConfigMaps)}
}

// readConfigMaps reads the ConfigMaps in calico-node's environment.
func (c *Client) readConfigMaps(ctx context.Context, calico *corev1.Pod) configMaps {
	out := configMaps{}
	spec, _ := CalicoContainerOf(calico)
	if spec == nil {
		return out
	}
	var names []string
	for _, e := range spec.EnvFrom {
		if e.ConfigMapRef != nil {
			names = append(names, e.ConfigMapRef.Name)
		}
	}
	for _, e := range spec.Env {
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			names = append(names, e.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
	names = Distinct(names)
	for _, name := range names[:min(len(names), maxConfigMaps)] {
		var config Read[map[string]string]
		config.read(ctx, func(ctx context.Context) (map[string]string, error) {
			m, err := c.kube.CoreV1().ConfigMaps(calico.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
			}
			return m.Data, nil
		})
		out[name] = config
	}
	return out
}

// endpointMap is a ConfigMap that Calico's manifests reference but few clusters have. It holds only the API server's
// address. If it cannot be read, the values of all other variables are still certain.
const endpointMap = "kubernetes-services-endpoint"

// environmentOf resolves the variables of the calico-node container: sources first, then each variable in order. A
// value may refer to earlier variables as $(NAME).
func environmentOf(calico *corev1.Pod, from configMaps) environment {
	env := environment{vars: map[string]Read[string]{}}
	spec, _ := CalicoContainerOf(calico)
	if spec == nil {
		return env
	}
	for _, source := range spec.EnvFrom {
		ref := source.ConfigMapRef
		if ref == nil {
			env.part = cmp.Or(env.part, errors.New("a Secret sets more variables"))
			continue
		}
		config := from.named(ref.Name)
		for name, value := range config.Value {
			env.vars[source.Prefix+name] = Read[string]{Value: value}
		}
		// A missing source must be optional: otherwise the pod would not run.
		if config.Err != nil && !apierrors.IsNotFound(config.Err) && ref.Name != endpointMap {
			env.part = cmp.Or(env.part, config.Err)
		}
	}
	for _, e := range spec.Env {
		delete(env.vars, e.Name)
		if value, err := env.valueOf(calico, e, from); err != nil || value != "" {
			env.vars[e.Name] = Read[string]{value, err}
		}
	}
	return env
}

// reference matches a reference to another variable in a value; $$ is an escaped dollar sign.
var reference = regexp.MustCompile(`\$\$|\$\([\w.-]+\)`)

// valueOf returns the value of one variable.
func (env environment) valueOf(calico *corev1.Pod, e corev1.EnvVar, from configMaps) (string, error) {
	if e.ValueFrom == nil {
		var missing error
		text := reference.ReplaceAllStringFunc(e.Value, func(ref string) string {
			name := strings.TrimSuffix(strings.TrimPrefix(ref, "$("), ")")
			value, known := env.vars[name]
			switch {
			case ref == "$$":
				return "$"
			case value.Err != nil:
				missing = value.Err
			case known:
				return value.Value
			}
			return ref // unchanged, as the kubelet leaves it
		})
		return text, missing
	}
	switch src := e.ValueFrom; {
	case src.ConfigMapKeyRef != nil:
		ref := src.ConfigMapKeyRef
		optional := ref.Optional != nil && *ref.Optional
		if err := from.named(ref.Name).Err; err != nil && (!optional || !apierrors.IsNotFound(err)) {
			return "", fmt.Errorf("%s: %w", e.Name, err)
		}
		return from[ref.Name].Value[ref.Key], nil
	case src.FieldRef != nil:
		if value, ok := fieldOf(calico, src.FieldRef.FieldPath); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s has a source other than a ConfigMap or a field of the pod", e.Name)
}

// quotedKey matches a pod label or annotation in a fieldRef.
var quotedKey = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// fieldOf returns a field of a pod as the downward API does.
func fieldOf(p *corev1.Pod, path string) (string, bool) {
	if m := quotedKey.FindStringSubmatch(path); m != nil {
		value, ok := map[string]map[string]string{"labels": p.Labels, "annotations": p.Annotations}[m[1]][m[2]]
		return value, ok
	}
	fields := map[string]string{
		"metadata.name": p.Name, "metadata.namespace": p.Namespace, "metadata.uid": string(p.UID),
		"spec.nodeName": p.Spec.NodeName, "spec.serviceAccountName": p.Spec.ServiceAccountName,
		"status.hostIP": p.Status.HostIP, "status.podIP": p.Status.PodIP,
	}
	var hosts, pods []string
	for _, a := range p.Status.HostIPs {
		hosts = append(hosts, a.IP)
	}
	for _, a := range p.Status.PodIPs {
		pods = append(pods, a.IP)
	}
	fields["status.hostIPs"], fields["status.podIPs"] = strings.Join(hosts, ","), strings.Join(pods, ",")
	value := fields[path]
	return value, value != ""
}

// get returns a variable's value, or "" if the variable is not set. It returns an error if the value is unknown.
func (env environment) get(name string) (string, error) {
	switch value := env.vars[name]; {
	case value.Err != nil:
		return "", value.Err
	case value.Value != "":
		return value.Value, nil
	}
	return "", env.part
}

// environment returns the environment of this node's calico-node.
func (s *Snapshot) environment() environment { return environmentOf(s.Calico.Value, s.configMaps) }

// CalicoEnv returns the value of a variable of the calico-node container, or "" if unset or unknown.
func (s *Snapshot) CalicoEnv(name string) string { return s.environment().known(name) }

// known returns the value of a variable, or "" if it is unset or unknown.
func (env environment) known(name string) string {
	value, _ := env.get(name)
	return value
}
