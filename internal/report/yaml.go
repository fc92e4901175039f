package report

import (
	"encoding/json"
	"fmt"
	"io"

	jsoninteger "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe"
)

// WriteYAML writes a value by the names its JSON has.
func WriteYAML(w io.Writer, v any) error {
	tree, err := plainTree(v)
	if err != nil {
		return err
	}
	b, err := yaml.Marshal(tree)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// plainTree is a value as its JSON has it, with whole numbers as such, for what people
// read as it stands: no text in it can steer a terminal. YAML and templates write some
// of what JSON escapes.
func plainTree(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := jsoninteger.UnmarshalCaseSensitivePreserveInts(b, &tree); err != nil {
		return nil, fmt.Errorf("reading the report again: %w", err)
	}
	return plainNode(tree), nil
}

func plainNode(v any) any {
	switch v := v.(type) {
	case string:
		return probe.Plain(v)
	case []any:
		for i := range v {
			v[i] = plainNode(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v { // keys of facts come from nodes too
			out[probe.Plain(key)] = plainNode(value)
		}
		return out
	}
	return v
}
