package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestErrorsApart wants several refusals told from each other in the one line that they share.
func TestErrorsApart(t *testing.T) {
	t.Parallel()
	of := func(what string) error {
		return fmt.Errorf("listing %s: %w", what, apierrors.NewForbidden(schema.GroupResource{Resource: what}, "",
			errors.New("no")))
	}
	got := Explain(errors.Join(of("pods"), of("jobs"), errors.New("-n NAMESPACE may be enough")))
	if !strings.Contains(got, ": no; listing jobs: ") || !strings.Contains(got,
		": no; -n NAMESPACE may be enough; 'calico-probe preflight'") {
		t.Error(got)
	}
}

// TestRightNamed wants a right that lacks named first, and what to do about it.
func TestRightNamed(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for want, why := range map[string]string{
		"no right to list nodes: listing nodes: ": `User "joe" cannot list resource "nodes" in API group "" at the cluster scope`,
		"no right to do this: listing nodes: ":    "as somebody's own authoriser says",
	} {
		got := Explain(fmt.Errorf("listing nodes: %w", apierrors.NewForbidden(nodes, "", errors.New(why))))
		if !strings.HasPrefix(got, want) || !strings.Contains(got, why) ||
			!strings.Contains(got, "'calico-probe manifests' ") {
			t.Error(got)
		}
	}
}
