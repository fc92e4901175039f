package checks

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

func kubeconfigWith(token string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://10.96.0.1:443\nusers:\n- name: calico\n  user:\n    token: " + token + "\n"
}

// token is one as Kubernetes makes them, with a signature nobody checks.
func token(issued, expires time.Time) string {
	c := map[string]any{"iss": "https://kubernetes.default.svc",
		"sub": "system:serviceaccount:kube-system:calico-cni-plugin", "iat": issued.Unix(), "nbf": issued.Unix(),
		"kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": "0f1e"}}}
	if !expires.IsZero() {
		c["exp"] = expires.Unix()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		panic(err) // of a map of texts and numbers
	}
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString(payload) + ".c2lnbmF0dXJl"
}

func TestCNIToken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		text   string
		status probe.Status
		saw    string
	}{
		"good": {kubeconfigWith(token(now.Add(-time.Hour), now.Add(23*time.Hour))), probe.OK, "valid for 2"},
		"nearly over": {kubeconfigWith(token(now.Add(-24*time.Hour), now.Add(10*time.Minute))), probe.Warn,
			"not been renewed"},
		"over": {kubeconfigWith(token(now.Add(-48*time.Hour), now.Add(-24*time.Hour))), probe.Fail,
			"expired 24h0m"},
		"the clock": {kubeconfigWith(token(now.Add(3*time.Hour), now.Add(27*time.Hour))), probe.Fail,
			"this node's clock says"},
		"without end":   {kubeconfigWith(token(now, time.Time{})), probe.Info, "does not expire"},
		"no token":      {"apiVersion: v1\nkind: Config\n", probe.Unknown, "holds no token"},
		"not a token":   {kubeconfigWith("s3cr3t"), probe.Unknown, "not a Kubernetes token"},
		"broken token":  {kubeconfigWith("a.s3cr3t!.c"), probe.Unknown, "cannot be read"},
		"no kubeconfig": {"\t: s3cr3t [", probe.Unknown, "is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, CNIToken, node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": c.text}))
			want(t, got, "", c.status, c.saw)
			if all := fmt.Sprintf("%+v", got); strings.Contains(all, "s3cr3t") ||
				strings.Contains(all, "c2lnbmF0dXJl") {
				t.Errorf("the secret is in the result: %s", all)
			}
		})
	}
	of := run(t, CNIToken, node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": kubeconfigWith(token(now, now.Add(time.Hour)))}))
	if len(of) != 1 || of[0].Facts.Str(FactAccountUID) != "0f1e" {
		t.Errorf("whose token it is: %v", of)
	}
	hidden := strings.Replace(kubeconfigWith(token(now, now.Add(time.Hour))), "https://10.96.0.1:443",
		"https://user:hunter2@10.0.0.1:6443/path-s3cr3t?token=s3cr3t#s3cr3t", 1)
	of = run(t, CNIToken, node(t, map[string]string{"etc/cni/net.d/calico-kubeconfig": hidden}))
	if all := fmt.Sprintf("%+v", of); len(of) != 1 || of[0].Facts.Str(FactServer) != "https://10.0.0.1:6443" ||
		strings.Contains(all, "s3cr3t") || strings.Contains(all, "hunter2") {
		t.Errorf("of the server more than scheme, host and port: %s", all)
	}
	want(t, run(t, CNIToken, node(t, map[string]string{"x": ""})), "", probe.Skip,
		"no /etc/cni/net.d/calico-kubeconfig")
	const k3s = "var/lib/rancher/k3s/agent/etc/cni/net.d/calico-kubeconfig"
	want(t, run(t, CNIToken,
		node(t, map[string]string{k3s: kubeconfigWith(token(now.Add(-48*time.Hour), now.Add(-24*time.Hour)))})), "",
		probe.Fail, "expired 24h0m")
}

func FuzzClaims(f *testing.F) {
	f.Add([]byte(kubeconfigWith(token(time.Now(), time.Now()))))
	f.Add([]byte(kubeconfigWith("a.e30.c")))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if c := readPluginConfig(text); c.err == nil {
			c.claims.judge(time.Now())
		}
	})
}
