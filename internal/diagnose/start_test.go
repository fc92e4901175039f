package diagnose

import (
	"strings"
	"testing"
)

// TestTimeFor wants no start to be given more than an hour.
func TestTimeFor(t *testing.T) {
	t.Parallel()
	got := timeFor(Findings{Node: "n"}, 1e300)["moretime"].Typed()
	if !strings.HasSuffix(got, `"initialDelaySeconds":3600}`) {
		t.Errorf("a start without end: %s", got)
	}
}
