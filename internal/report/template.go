package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"k8s.io/client-go/util/jsonpath"
)

// needs rejects an expression without braces. Such an expression would be printed literally, so it is a typo or a file
// name.
func needs(expr, brace, example string) error {
	if strings.Contains(expr, brace) {
		return nil
	}
	return fmt.Errorf("%q has no %s: write it as %s; to write a file, use '> FILE'", expr, brace, example)
}

func newJSONPath(w io.Writer, o Options) (Sink, error) {
	if err := needs(o.Expr, "{", "-o jsonpath='{.verdict}'"); err != nil {
		return nil, err
	}
	parsed, err := jsonpath.Parse("report", o.Expr)
	if err == nil {
		err = knownInPath(parsed.Root.Nodes)
	}
	path := jsonpath.New("report").AllowMissingKeys(true) // some keys may be missing in a run
	if err == nil {
		err = path.Parse(o.Expr)
	}
	if err != nil {
		return nil, fmt.Errorf("-o jsonpath=%s: %w", o.Expr, err)
	}
	return tree(expanded("jsonpath", func(w io.Writer, tree any) error {
		err := path.Execute(w, tree)
		// The first cause of a node without causes is empty, like a missing key. The library reports this only as text.
		if err != nil && strings.Contains(err.Error(), "array index out of bounds") {
			return nil
		}
		return err
	}))(w, o)
}

func newTemplate(w io.Writer, o Options) (Sink, error) {
	if err := needs(o.Expr, "{{", "-o go-template='{{.verdict}}'"); err != nil {
		return nil, err
	}
	t, err := template.New("report").Parse(o.Expr)
	if err == nil {
		err = knownInTemplate(t.Root)
	}
	if err != nil {
		return nil, fmt.Errorf("-o go-template: %w", err)
	}
	return tree(expanded("go-template", t.Execute))(w, o)
}

// expanded writes an expression's output. If the expression fails, it writes nothing, because half of the output would
// be mistaken for the result.
func expanded(name string, execute func(io.Writer, any) error) func(io.Writer, any) error {
	return func(w io.Writer, d any) error {
		tree, err := plainTree(d)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := execute(&out, tree); err != nil {
			return fmt.Errorf("-o %s: %w", name, err)
		}
		_, err = w.Write(out.Bytes())
		return err
	}
}
