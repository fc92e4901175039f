package apicheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/cluster"
)

// TestFailed tells calls that failed from those that the user may not make, and from policies that are not worked out.
func TestFailed(t *testing.T) {
	busy := errors.New("busy")
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "tiers"}, "", errors.New("no"))
	for want, all := range map[bool][]error{
		true:  {busy, fmt.Errorf("listing: %w", busy), errors.Join(denied, busy)},
		false: {nil, denied, errors.Join(nil, denied, fmt.Errorf("there are some, %w", cluster.ErrNotWorkedOut))},
	} {
		for _, err := range all {
			if Failed(err) != want {
				t.Errorf("%v: %v", err, !want)
			}
		}
	}
}

// TestMessage requires that a component's message is shortened and contains no secret.
func TestMessage(t *testing.T) {
	t.Parallel()
	if got := Message("cannot log in: password=hunter22hunter\nnext"); strings.Contains(got, "hunter22") ||
		!strings.HasPrefix(got, "cannot log in") || strings.Contains(got, "\n") {
		t.Errorf("a password: %q", got)
	}
	if got := Message(""); got != "no message" {
		t.Errorf("nothing: %q", got)
	}
}
