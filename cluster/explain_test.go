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
