package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"github.com/calico-probe/calico-probe/internal/suggest"
)

// If a field is valid but this run does not have it, an empty text is printed: for example, a healthy node has no
// causes. An invalid field is a typo, and is rejected before the run begins.

// knownFields rejects a path with a field that no report has. Below facts any name is valid, because checks choose
// these names.
func knownFields(path []string) error {
	have := append(fieldsOf(reflect.TypeFor[Document](), nil), fieldsOf(reflect.TypeFor[Fleet](), nil)...)
	for _, name := range path {
		switch {
		case !slices.Contains(have, name):
			return fmt.Errorf("reports have no field %q%s; 'calico-probe schema report' lists all fields",
				name, suggest.DidYouMean(name, have))
		case name == "facts":
			return nil
		}
	}
	return nil
}

// fieldsOf returns the JSON names of all fields of a type, at every depth.
func fieldsOf(t reflect.Type, had []reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || slices.Contains(had, t) {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
		out = append(out, fieldsOf(f.Type, append(had, t))...)
	}
	return out
}

// knownInPath applies knownFields to the fields of a JSONPath.
func knownInPath(nodes []jsonpath.Node) error {
	var path []string
	for _, n := range nodes {
		var inner [][]jsonpath.Node
		switch n := n.(type) {
		case *jsonpath.FieldNode:
			if n.Value != "" { // {.} is the whole report, and has no name
				path = append(path, n.Value)
			}
		case *jsonpath.ListNode:
			inner = append(inner, n.Nodes)
		case *jsonpath.FilterNode:
			inner = append(inner, n.Left.Nodes, n.Right.Nodes)
		case *jsonpath.UnionNode:
			for _, l := range n.Nodes {
				inner = append(inner, l.Nodes)
			}
		}
		for _, nodes := range inner {
			if slices.Contains(path, "facts") {
				continue
			}
			if err := knownInPath(nodes); err != nil {
				return err
			}
		}
	}
	return knownFields(path)
}

// knownInTemplate applies knownFields to the fields of a Go template.
func knownInTemplate(n parse.Node) error {
	var inner []parse.Node
	branch := func(b parse.BranchNode) {
		inner = append(inner, b.Pipe, b.List)
		if b.ElseList != nil {
			inner = append(inner, b.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.FieldNode:
		return knownFields(n.Ident)
	case *parse.VariableNode:
		return knownFields(n.Ident[1:])
	case *parse.ChainNode:
		return knownFields(n.Field)
	case *parse.ListNode:
		inner = n.Nodes
	case *parse.ActionNode:
		inner = append(inner, n.Pipe)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			inner = append(inner, c.Args...)
		}
	case *parse.IfNode:
		branch(n.BranchNode)
	case *parse.RangeNode:
		branch(n.BranchNode)
	case *parse.WithNode:
		branch(n.BranchNode)
	}
	for _, n := range inner {
		if err := knownInTemplate(n); err != nil {
			return err
		}
	}
	return nil
}
