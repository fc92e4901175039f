// Package page writes what was found as one page of HTML that needs nothing but itself: style and script are inside,
// a browser is told to load nothing, and without script all of it can be read but for the single nodes and paths of
// thousands.
//
// It knows words, not what they are about: report, mesh, runbook and alerts make a Page of what they have. All that a
// node said is text: it is cleaned, escaped as html/template does it, and reaches the script as JSON, of which the
// script makes text again.
//
// The escaping is DataDog's copy of html/template, whose templates call no methods. Where one may, the linker can leave
// no method out of the program, which makes it a third larger. TestHostile holds the copy to the original.
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

// functions are what the templates call: they know no methods.
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

// short tells a text for which a column is never too narrow.
func short(text string) bool { return len(text) <= 24 }

// drawn is a Page with what is made of it.
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

// cleaned is a value of which every text is fit to be shown.
func cleaned(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(probe.Line(v.String())) // a command is one line, whatever is in it
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
