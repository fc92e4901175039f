package ask

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPluginLock checks that the holder of the plugin's lock is named, and that a free lock gives no warning.
func TestPluginLock(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/calico/ipam.lock": ""})
	h.Proc = "/proc"
	if r, is := pluginLockResult(t.Context(), h); !is || r.Status != probe.OK {
		t.Errorf("a free lock: %t %+v", is, r)
	}
	f := must.Get(os.Open(filepath.Join(h.Root, "run/calico/ipam.lock")))(t)
	defer f.Close()
	must.Do(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	r, is := pluginLockResult(t.Context(), h)
	if holder, _ := r.Facts.Num(cni.FactHolder); !is || r.Status != probe.Fail || int(holder) != os.Getpid() ||
		!strings.Contains(r.Saw, "ask.test") {
		t.Errorf("this test holds it: %t %+v", is, r)
	}
	if _, is := pluginLockResult(t.Context(), checktest.Node(t, map[string]string{"run/calico/x": ""})); is {
		t.Error("a result without a lock")
	}
}
