package bundle

import (
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// A rule is one kind of thing that a bundle leaves out.
type rule struct {
	ID    string
	Out   string // what is left out
	Stays string // what is not
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

// rules lists every rule. The README of a bundle and docs/bundle.md have their table from here.
func rules() []rule {
	return []rule{
		{ruleField, "every field that is not in the list of its kind: managedFields, volumes, images of a node, machine-id and system UUID, the rules of policies; " +
			"of pods in other namespaces than Calico's and kube-system also images, commands, settings and probes",
			"names, labels, owners, addresses, selectors, taints, conditions, states, restarts, and the settings of Calico's resources"},
		{ruleAnnotation, "the value of an annotation of somebody else's, and of those that hold a whole object (last-applied-configuration, projectcalico.org/metadata)",
			"its name; values below " + strings.Join(annotationDomains(), ", ")},
		{ruleEnv, "the value of an environment variable of a container", "its name; values by which Calico is configured (FELIX_*, CALICO_*, IP, " +
			"NODENAME and the like), and where a value is from"},
		{ruleArgument, "what follows the name of a secret in a command or its arguments", "the rest, of pods in Calico's namespaces and kube-system"},
		{ruleSetting, "the value of a key of a ConfigMap", "its name; the keys that Calico's manifests have"},
		{ruleNamed, "a text whose field, variable or key is named like a secret (password, token, credential, private key ...)", "references to a Secret: its name and key"},
		{ruleToken, "tokens, private keys, cookies, users, passwords and queries in URLs, and what follows the name of a secret, in any text, also of the runs; " +
			"in messages of events, conditions and containers also what looks like a key", "the rest of the text"},
		{ruleLong, "what is longer than 4 KiB in one text", "its beginning"},
		{ruleLarge, "everything of an object that has more than 256 KiB", "its name and namespace"},
	}
}

// removed stands where a text was left out whole.
const removed = "(removed)"

// How long a text, and how large an object and all of one kind may be.
const (
	longestText   = 4 << 10
	largestObject = 256 << 10
	largestKind   = 4 << 20
)

// redacting is the redaction of one object.
type redacting struct {
	keeps fields
	out   []Removal
}

func (r *redacting) leave(rule, what string) {
	r.out = append(r.out, Removal{rule, probe.Cut(probe.Line(what), 200)})
}

// redacted is an object with nothing but what may be given away, and what was left out of it; the object itself stays
// as it is.
func redacted(object map[string]any, keeps fields) (map[string]any, []Removal) {
	r := &redacting{keeps: keeps}
	out, _ := r.fields(object, keeps, "").(map[string]any)
	return out, r.out
}

// fields are those of a value that are kept; nil keeps all.
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

// field is the value of one field that is kept.
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

// texts are those of a map, whose values are kept or left out by their names.
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
		out[probe.Cut(probe.Line(name), longestText)] = text
	}
	return out
}

// env is a container's environment.
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

// arguments are a command, in which one word may be the name of what the next one is.
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

// readMost is how much of a text is looked at.
const readMost = 64 << 10

// text is one text, of a field of that name.
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

// free reports whether a field of that name holds what anybody may have written.
func free(name string) bool {
	return slices.Contains([]string{"message", "cni_network_config", "net-conf.json", "CNI_NETWORK_CONFIG"}, name)
}

// bounded is a text that is fit for a terminal and not too long.
func (r *redacting) bounded(text, path string) string {
	if len(text) > longestText {
		r.leave(ruleLong, path)
	}
	return probe.Plain(probe.Cut(text, longestText))
}

// namesSecret reports whether a name is one of a secret's value. The name of a Secret is no secret.
func namesSecret(name string) bool {
	return probe.NamesSecret(name) && !strings.HasSuffix(name, "secretName")
}
