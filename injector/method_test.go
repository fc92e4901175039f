package injector

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAccessMethodsAreWhole requires a complete table row for each access method: all lists derive from the table
// (CONTRIBUTING, "Add an access method").
func TestAccessMethodsAreWhole(t *testing.T) {
	t.Parallel()
	for _, m := range accessMethods() {
		switch {
		case m.scope == 0:
			t.Errorf("access method %s: its row in injector/method.go says in asks who can be asked by it", m.name)
		case m.needs == 0:
			t.Errorf("access method %s: its row in injector/method.go says in needs what stops it, or that it is alone", m.name)
		case m.needs != alone && m.open == nil:
			t.Errorf("access method %s: its row in injector/method.go has no open, so auto would try what nothing does", m.name)
		}
	}
	file := must.Get(parser.ParseFile(token.NewFileSet(), "method.go", nil, 0))(t)
	rows, consts := 0, 0
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for _, name := range n.Names {
				if strings.HasPrefix(name.Name, "Method") {
					consts++
				}
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && key.Name == "name" {
				rows++
			}
		}
		return true
	})
	if rows == 0 || rows != consts {
		t.Errorf("injector/method.go names %d access methods, and its table accessMethods has %d rows", consts, rows)
	}
}

// TestAccessMethodsRefuse requires each failing access method to return a reason, which decides about the next method.
// The cluster and the node are unreachable.
func TestAccessMethodsRefuse(t *testing.T) {
	t.Parallel()
	client, err := NewClient(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range accessMethods() {
		if m.open == nil { // puts no probe there, or named by TestAccessMethodsAreWhole
			continue
		}
		o := Options{Node: "node-a", Run: "1", Namespace: "kube-system", Image: "probe:1", Start: time.Second,
			Embedded: []byte{0},
			Progress: func(string) {}, Note: func(string) {},
			Running: func(context.Context) ([]corev1.Pod, error) { return nil, errors.New("nobody answers") }}
		session, err := m.open(client)(t.Context(), o)
		if pe, is := errors.AsType[*PlacementError](err); session != nil || !is || pe.Reason == "" {
			t.Errorf("access method %s: its Open in injector/ returns no error of refuse, with a reason of probe/facts: %v", m.name, err)
		}
	}
}
