package gate

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAccess refuses to start where everybody could come in.
func TestAccess(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, []byte("\n"), 0o600))
	short := filepath.Join(t.TempDir(), "short")
	must.Do(t, os.WriteFile(short, []byte("abcde\n"), 0o600))
	for name, c := range map[string]struct {
		Access
		want string
	}{
		"nothing":        {Access{}, "no authentication is configured"},
		"TLS alone":      {Access{Cert: empty, Key: empty}, "no authentication is configured"},
		"half a pair":    {Access{TokenFile: empty, Cert: empty}, "belong together"},
		"a CA alone":     {Access{ClientCA: empty}, "need TLS"},
		"no token":       {Access{TokenFile: empty}, "has no token"},
		"a short one":    {Access{TokenFile: short}, "has a token of 5 characters; at least 16 are needed"},
		"no such file":   {Access{TokenFile: empty + "x"}, "no such file"},
		"no certificate": {Access{ClientCA: empty, Cert: empty, Key: empty}, "reading the certificate"},
	} {
		if _, err := Open(c.Access, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
