package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestTimeFor wants no start to be given more than an hour.
func TestTimeFor(t *testing.T) {
	t.Parallel()
	got := timeFor(diagnose.Findings{Node: "n"}, 1e300)["moretime"].Typed()
	if !strings.HasSuffix(got, `"initialDelaySeconds":3600}`) {
		t.Errorf("a start without end: %s", got)
	}
}
