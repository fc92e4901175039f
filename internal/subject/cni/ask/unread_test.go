package ask

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestCNIUnread checks that a file is reported which containerd has not found, once it had time to read it.
func TestCNIUnread(t *testing.T) {
	t.Parallel()
	const none = "cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"
	for name, c := range map[string]struct {
		load    string
		without bool
		age     time.Duration
		unread  bool
	}{
		"not read":              {none, true, time.Hour, true},
		"just written":          {none, true, 10 * time.Second, false},
		"read":                  {"OK", false, time.Hour, false},
		"it has a network":      {none, false, time.Hour, false},
		"CRI-O reports nothing": {"", true, time.Hour, false},
		"it fails otherwise":    {"cni config load failed: failed to load CNI config list file", true, time.Hour, false},
	} {
		h := checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList, "opt/cni/bin/calico": "#!",
			"opt/cni/bin/calico-ipam": "#!", "opt/cni/bin/portmap": "#!"})
		written := time.Now().Add(-c.age)
		for _, file := range []string{"etc/cni/net.d/10-calico.conflist", "etc/cni/net.d"} {
			must.Do(t, os.Chtimes(filepath.Join(h.Root, file), written, written))
		}
		used := runtimeCNI{node.CNIPlaces[0], c.load, c.without}
		r := used.withLoadStatus(h, networksAt(h, node.CNIPlaces, true), time.Now())
		if unread := r.Status == probe.Fail && r.Facts.Str(probe.FactReason) == cni.CNIUnread; unread != c.unread {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
