package ask

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestRuntimeProxy checks that a proxy which the plugin would use is reported without its password, and not if NO_PROXY
// lists the API server.
func TestRuntimeProxy(t *testing.T) {
	t.Parallel()
	const proxy = "HTTPS_PROXY=http://me:hunter2@proxy.example:3128"
	for name, c := range map[string]struct {
		environment string
		says        bool
	}{
		"without NO_PROXY": {proxy, true},
		"in small letters": {"https_proxy=http://me:hunter2@proxy.example:3128", true},
		"the nodes alone":  {proxy + "\x00NO_PROXY=localhost,127.0.0.1,10.88.0.0/24,.svc,.cluster.local", true},
		"the Services too": {proxy + "\x00NO_PROXY=localhost,10.96.0.0/12", false},
		"the address":      {proxy + "\x00no_proxy=10.96.0.1", false},
		"everything":       {proxy + "\x00NO_PROXY=*", false},
		"for plain HTTP":   {"HTTP_PROXY=http://proxy.example:3128", false},
		"no proxy":         {"PATH=/bin", false},
	} {
		files := map[string]string{"proc/1/comm": "systemd\n",
			"etc/cni/net.d/calico-kubeconfig": checktest.KubeconfigWith(checktest.Token(time.Now(), time.Time{}))}
		checktest.Process(files, 60, 1, "containerd", 0, "")
		files["proc/60/cmdline"], files["proc/60/environ"] = "/usr/bin/containerd\x00", c.environment+"\x00SECRET=hunter2\x00"
		got := checktest.Run(t, cniTokenCheck, checktest.Node(t, files))
		says := len(got) == 2 && got[1].Target == cni.TargetRuntimeProxy && got[1].Status == probe.Info
		if says != c.says || strings.Contains(fmt.Sprintf("%+v", got), "hunter2") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
