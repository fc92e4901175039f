package session

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
)

// TestVisitMany requires consent before a session places a probe on a 21st node.
func TestVisitMany(t *testing.T) {
	t.Parallel()
	refused, asked := errors.New("refused"), 0
	c := &Session{client: examine.NewClient(examine.Config{Consent: func(_ context.Context, nodes int) error {
		asked = nodes
		return refused
	}}, io.Discard)}
	for range examine.MaxWithoutConsent {
		c.nodes = append(c.nodes, &nodeSession{session: &injector.Session{}}, &nodeSession{}) // and one without a probe
	}
	if err := c.visit(t.Context(), "worker-21"); !errors.Is(err, refused) || asked != 21 {
		t.Errorf("asked about %d nodes: %v", asked, err)
	}
}
