package report

import (
	"encoding/json"
	"fmt"
	"io"

	jsoninteger "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe"
)

// WriteYAML writes a value with its JSON names.
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

// plainTree returns a value as decoded JSON, with integers. No text in it can control a terminal. This is necessary
// because YAML and templates print characters that JSON escapes.
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
		for key, value := range v { // nodes also choose the keys of facts
			out[probe.Plain(key)] = plainNode(value)
		}
		return out
	}
	return v
}
