package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"k8s.io/client-go/util/jsonpath"
)

// An expression without its braces would be printed as it stands. It is a slip, or
// somebody meant a file.
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
	path := jsonpath.New("report").AllowMissingKeys(true) // those that a run may lack
	if err == nil {
		err = path.Parse(o.Expr)
	}
	if err != nil {
		return nil, fmt.Errorf("-o jsonpath=%s: %w", o.Expr, err)
	}
	return tree(expanded("jsonpath", func(w io.Writer, tree any) error {
		err := path.Execute(w, tree)
		// As a missing key, the first cause of a node that has none is nothing; of this the
		// library has only the text.
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

// expanded writes what an expression makes of a run, or nothing where it goes wrong.
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
