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

func TestCNIToken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		text   string
		status probe.Status
		saw    string
	}{
		"good": {checktest.KubeconfigWith(checktest.Token(now.Add(-time.Hour), now.Add(23*time.Hour))), probe.OK,
			"valid for 2"},
		"nearly over": {checktest.KubeconfigWith(checktest.Token(now.Add(-24*time.Hour), now.Add(10*time.Minute))),
			probe.Warn,
			"not been renewed"},
		"over": {checktest.KubeconfigWith(checktest.Token(now.Add(-48*time.Hour), now.Add(-24*time.Hour))), probe.Fail,
			"expired 24h0m"},
		"the clock": {checktest.KubeconfigWith(checktest.Token(now.Add(3*time.Hour), now.Add(27*time.Hour))), probe.Fail,
			"this node's clock shows"},
		"without end":   {checktest.KubeconfigWith(checktest.Token(now, time.Time{})), probe.Info, "does not expire"},
		"no token":      {"apiVersion: v1\nkind: Config\n", probe.Unknown, "contains no token"},
		"not a token":   {checktest.KubeconfigWith("s3cr3t"), probe.Unknown, "not a Kubernetes token"},
		"broken token":  {checktest.KubeconfigWith("a.s3cr3t!.c"), probe.Unknown, "cannot be read"},
		"no kubeconfig": {"\t: s3cr3t [", probe.Unknown, "is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := checktest.Run(t, cniTokenCheck, checktest.Node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": c.text}))
			checktest.Want(t, got, "", c.status, c.saw)
			if all := fmt.Sprintf("%+v", got); strings.Contains(all, "s3cr3t") ||
				strings.Contains(all, "c2lnbmF0dXJl") {
				t.Errorf("the secret is in the result: %s", all)
			}
		})
	}
	of := checktest.Run(t, cniTokenCheck, checktest.Node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": checktest.KubeconfigWith(checktest.Token(now, now.Add(time.Hour)))}))
	if len(of) != 1 || of[0].Facts.Str(cni.FactAccountUID) != "0f1e" {
		t.Errorf("whose token it is: %v", of)
	}
	hidden := strings.Replace(checktest.KubeconfigWith(checktest.Token(now, now.Add(time.Hour))), "https://10.96.0.1:443",
		"https://user:hunter2@10.0.0.1:6443/path-s3cr3t?token=s3cr3t#s3cr3t", 1)
	of = checktest.Run(t, cniTokenCheck, checktest.Node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": hidden}))
	if all := fmt.Sprintf("%+v", of); len(of) != 1 || of[0].Facts.Str(cni.FactServer) != "https://10.0.0.1:6443" ||
		strings.Contains(all, "s3cr3t") || strings.Contains(all, "hunter2") {
		t.Errorf("of the server more than scheme, host and port: %s", all)
	}
	checktest.Want(t, checktest.Run(t, cniTokenCheck, checktest.Node(t, map[string]string{"x": ""})), "", probe.Skip,
		"no /etc/cni/net.d/calico-kubeconfig")
	const k3s = "var/lib/rancher/k3s/agent/etc/cni/net.d/calico-kubeconfig"
	checktest.Want(t, checktest.Run(t, cniTokenCheck,
		checktest.Node(t, map[string]string{k3s: checktest.KubeconfigWith(checktest.Token(now.Add(-48*time.Hour),
			now.Add(-24*time.Hour)))})), "",
		probe.Fail, "expired 24h0m")
}

func FuzzClaims(f *testing.F) {
	f.Add([]byte(checktest.KubeconfigWith(checktest.Token(time.Now(), time.Now()))))
	f.Add([]byte(checktest.KubeconfigWith("a.e30.c")))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if c := readPluginConfig(text); c.err == nil {
			c.claims.judge(time.Now())
		}
	})
}
