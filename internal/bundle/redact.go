package bundle

import (
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// A rule is one kind of redaction.
type rule struct {
	ID    string
	Out   string // what is redacted
	Stays string // what is kept
}

// The IDs of rules.
const (
	ruleField      = "field"
	ruleAnnotation = "annotation"
	ruleEnv        = "env"
	ruleArgument   = "argument"
	ruleSetting    = "setting"
	ruleNamed      = "named"
	ruleToken      = "token"
	ruleLong       = "long"
	ruleLarge      = "large"
)

// rules lists all rules. The README of a bundle and docs/bundle.md contain this table.
func rules() []rule {
	return []rule{
		{ruleField, "every field that is not listed for the object's kind, such as managedFields, volumes, a node's images, machine-id and system UUID, and the rules of policies; " +
			"for pods outside Calico's namespaces and kube-system, also images, commands, settings and probes",
			"names, labels, owners, addresses, selectors, taints, conditions, states, restarts, and the settings of Calico's resources"},
		{ruleAnnotation, "the value of a foreign annotation, and of annotations that contain a whole object (last-applied-configuration, projectcalico.org/metadata)",
			"its name; values below " + strings.Join(annotationDomains(), ", ")},
		{ruleEnv, "the value of a container's environment variable", "its name; values that configure Calico (such as FELIX_*, CALICO_*, " +
			"IP and NODENAME), and the source of a value"},
		{ruleArgument, "the text after a secret's name in a command or its arguments", "the rest, for pods in Calico's namespaces and kube-system"},
		{ruleSetting, "the value of a ConfigMap key", "its name; the values of keys that Calico's manifests contain"},
		{ruleNamed, "a text in a field, variable or key named like a secret (password, token, credential, private key ...)", "references to a Secret: its name and key"},
		{ruleToken, "in any text, including that of the runs: tokens, private keys, cookies, users, passwords and queries in URLs, and the text after a secret's name; " +
			"in messages of events, conditions and containers, also text that looks like a key", "the rest of the text"},
		{ruleLong, "the part of a text beyond 4 KiB", "its beginning"},
		{ruleLarge, "every field of an object larger than 256 KiB", "its name and namespace"},
	}
}

// removed replaces a completely redacted text.
const removed = "(removed)"

// Limits for a text, for an object, and for all objects of one kind.
const (
	maxText       = 4 << 10
	largestObject = 256 << 10
	largestKind   = 4 << 20
)

// redacting redacts one object.
type redacting struct {
	keeps fields
	out   []Removal
}

func (r *redacting) leave(rule, what string) {
	r.out = append(r.out, Removal{rule, probe.Cut(probe.Line(what), 200)})
}

// redacted returns the shareable copy of an object, and the redactions. It does not change the object.
func redacted(object map[string]any, keeps fields) (map[string]any, []Removal) {
	r := &redacting{keeps: keeps}
	out, _ := r.fields(object, keeps, "").(map[string]any)
	return out, r.out
}

// fields returns the kept fields of a value. nil keeps all.
func (r *redacting) fields(v any, keeps fields, path string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, r.fields(item, keeps, path))
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below, kept := keeps[name]
			at := strings.TrimPrefix(path+"."+name, ".")
			if keeps != nil && !kept {
				r.leave(ruleField, at)
				continue
			}
			out[probe.Line(name)] = r.field(v[name], below, name, at)
		}
		return out
	case string:
		return r.text(v, "", path)
	}
	return v
}

// field redacts the value of one kept field.
func (r *redacting) field(v any, keeps fields, name, path string) any {
	switch {
	case path == "metadata.annotations" || strings.HasSuffix(path, "template.metadata.annotations"):
		return r.texts(v, path, ruleAnnotation, keptAnnotation)
	case path == "data":
		return r.texts(v, path, ruleSetting, keptSetting)
	case name == "env":
		return r.env(v, path)
	case name == "args" || name == "command":
		return r.arguments(v, path)
	}
	if text, is := v.(string); is {
		return r.text(text, name, path)
	}
	return r.fields(v, keeps, path)
}

// texts redacts a map. The keys decide which values are kept.
func (r *redacting) texts(v any, path, rule string, kept func(name string) bool) any {
	all, _ := v.(map[string]any)
	out := make(map[string]any, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, is := all[name].(string)
		if !is || !kept(name) {
			r.leave(rule, path+"["+name+"]")
			text = removed
		} else {
			text = r.text(text, name, path+"["+name+"]")
		}
		out[probe.Cut(probe.Line(name), maxText)] = text
	}
	return out
}

// env redacts a container's environment.
func (r *redacting) env(v any, path string) any {
	all, _ := v.([]any)
	out := make([]any, 0, len(all))
	for _, item := range all {
		of, _ := item.(map[string]any)
		name, _ := of["name"].(string)
		value, is := of["value"].(string)
		kept := map[string]any{"name": r.text(name, "", path)}
		switch {
		case !is:
		case keptVariable(name):
			kept["value"] = r.text(value, name, path+"["+name+"]")
		default:
			r.leave(ruleEnv, path+"["+name+"]")
			kept["value"] = removed
		}
		if from, is := of["valueFrom"].(map[string]any); is {
			kept["valueFrom"] = r.fields(from, fromElsewhere(), path+"["+name+"].valueFrom")
		}
		out = append(out, kept)
	}
	return out
}

// arguments redacts a command line, where the value after an option may be a secret.
func (r *redacting) arguments(v any, path string) any {
	all, _ := v.([]any)
	out := make([]any, 0, len(all))
	after := false
	for _, item := range all {
		text, _ := item.(string)
		secret := after && !strings.HasPrefix(text, "-")
		after = namesSecret(text) && !strings.ContainsAny(text, "= ")
		text = probe.Cut(text, readMost)
		if masked, had := probe.WithoutSecrets(text, true); secret || had {
			r.leave(ruleArgument, path)
			text = masked
			if secret {
				text = removed
			}
		}
		out = append(out, r.bounded(text, path))
	}
	return out
}

// readMost is the maximum number of bytes to read from a text.
const readMost = 64 << 10

// text redacts the text of a field.
func (r *redacting) text(text, name, path string) string {
	if namesSecret(name) && text != "" {
		r.leave(ruleNamed, path)
		return removed
	}
	text = probe.Cut(text, readMost)
	masked, had := probe.WithoutSecrets(text, free(name))
	switch {
	case had:
		r.leave(ruleToken, path)
		text = masked
	case free(name):
		text = probe.OneLine(text)
	}
	return r.bounded(text, path)
}

// free reports whether a field contains free text. Anyone may have written such text.
func free(name string) bool {
	return slices.Contains([]string{"message", "cni_network_config", "net-conf.json", "CNI_NETWORK_CONFIG"}, name)
}

// bounded makes a text safe for a terminal and limits its length.
func (r *redacting) bounded(text, path string) string {
	if len(text) > maxText {
		r.leave(ruleLong, path)
	}
	return probe.Plain(probe.Cut(text, maxText))
}

// namesSecret reports whether a field's name suggests that the value is secret. The name of a Secret object is not
// secret.
func namesSecret(name string) bool {
	return probe.NamesSecret(name) && !strings.HasSuffix(name, "secretName")
}
