// Package page writes a report as one self-contained HTML page.
//
//	packages report, mesh, runbook, alerts -> Page: titles, texts, tables, topologies -> Write -> HTML
//
// The style and the script are inline, and a policy forbids the browser to load anything. Without the script the page
// is readable, except for single nodes and paths in large clusters.
//
// Write is the entry point. The package does not judge: callers choose the words and the order. Texts from nodes are
// untrusted. They are cleaned, escaped as in html/template, and passed to the script as JSON. The script inserts them
// only as text.
//
// The escaping is DataDog's copy of html/template, whose templates cannot call methods. If templates could call
// methods, the linker would have to keep every method, and the program would be a third larger. TestHostile compares
// the copy with the original.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"reflect"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/calico-probe/calico-probe/probe"
)

//go:embed *.html
var pages embed.FS

// functions lists the functions that the templates can call. The templates cannot call methods.
var functions = template.FuncMap{
	"class": class, "short": short, "add": func(a, b int) int { return a + b }, "sub": func(a, b int) int { return a - b },
	"join":   joined,
	"style":  func() template.CSS { return template.CSS(style) },
	"script": func() template.JS { return template.JS(script) }, "policy": func() string { return Policy },

	"colour": func(of interface{ colour() string }) string { return of.colour() },
	"says":   func(of interface{ says() string }) string { return of.says() },

	"drawing": (*Topology).Drawn, "label": (*vertex).label, "radius": (*vertex).radius, "stroke": (*edge).stroke,
	"left": (*Timeline).left, "width": (*Timeline).width, "took": Bar.took,
	"grid": func(m *Matrix) grid { return m.grid },
}

var templates = template.Must(template.New("page.html").Funcs(functions).ParseFS(pages, "*.html"))

// short reports whether a text fits into every column.
func short(text string) bool { return len(text) <= 24 }

// drawn is a Page with its computed parts.
type drawn struct {
	Page
	List   *list // of the nodes
	Packed *packed
}

// Write writes a page.
func Write(w io.Writer, p Page) error {
	d, err := draw(cleaned(reflect.ValueOf(p)).Interface().(Page))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := templates.Execute(&b, d); err != nil {
		return fmt.Errorf("making a page: %w", err)
	}
	_, err = b.WriteTo(w)
	return err
}

func draw(p Page) (drawn, error) {
	packed, err := pack(p)
	return drawn{Page: p, List: listed(p.Nodes), Packed: packed}, err
}

// cleaned returns a value with all texts cleaned for display.
func cleaned(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(probe.Line(v.String())) // a command must stay one line
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(cleaned(v.Field(i)))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			break
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(cleaned(v.Index(i)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cleaned(v.Elem()))
		}
	}
	return out
}
