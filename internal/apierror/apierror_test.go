package apierror

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestErrorsApart requires that one line distinguishes several refusals.
func TestErrorsApart(t *testing.T) {
	t.Parallel()
	of := func(what string) error {
		return fmt.Errorf("listing %s: %w", what, apierrors.NewForbidden(schema.GroupResource{Resource: what}, "",
			errors.New("no")))
	}
	got := Explain(errors.Join(of("pods"), of("jobs"), errors.New("rights in one namespace may be enough: use -n NAMESPACE")))
	if !strings.Contains(got, ": no; listing jobs: ") || !strings.Contains(got,
		": no; rights in one namespace may be enough: use -n NAMESPACE; 'calico-probe manifests'") {
		t.Error(got)
	}
}

// TestInterrupted requires that the message for Ctrl-C contains no Go error text.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	get := &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: context.Canceled}
	for _, err := range []error{context.Canceled, fmt.Errorf("listing nodes: %w", get)} {
		if got := Explain(err); got != "interrupted" {
			t.Error(got)
		}
	}
}

// TestRightNamed requires the missing right first, then what to do.
func TestRightNamed(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for why, want := range map[string]string{
		`User "joe" cannot list resource "nodes" in API group "" at the cluster scope`: "no right to list nodes; 'calico-probe " +
			"manifests --user=joe' prints the rights to grant to joe, and 'calico-probe preflight' names other missing rights",
		`User "joe" cannot get resource "pods" in API group "" in the namespace "x"`: "no right to get pods in namespace x; 'calico-",
		"as somebody's own authoriser says":                                          "no right to do this: listing nodes: nodes is forbidden: as ",
	} {
		got := Explain(fmt.Errorf("listing nodes: %w", apierrors.NewForbidden(nodes, "", errors.New(why))))
		if !strings.HasPrefix(got, want) || !strings.Contains(got, "'calico-probe manifests") {
			t.Error(got)
		}
	}
}

// TestRefusedUser requires that the hint names the account that lacks a right, and that its command contains no text
// from the server.
func TestRefusedUser(t *testing.T) {
	t.Parallel()
	of := func(text string) string {
		return Explain(apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(text)))
	}
	got := of(`User "nobody" cannot list resource "nodes" in API group "" at the cluster scope`)
	if !strings.HasPrefix(got, "no right to list nodes; ") ||
		!strings.Contains(got, "'calico-probe manifests --user=nobody' prints the rights to grant to nobody,") {
		t.Error(got)
	}
	for _, text := range []string{`User "$(x)" cannot list resource "nodes"`, "no"} {
		if got := of(text); !strings.Contains(got, "; 'calico-probe manifests' prints the rights to grant, and ") {
			t.Error(got)
		}
	}
}
