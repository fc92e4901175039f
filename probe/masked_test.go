package probe_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe"
)

func TestMasked(t *testing.T) {
	t.Parallel()
	for line, gone := range map[string]string{
		`Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2ln`: "eyJ",
		`Authorization: Bearer opaque0123456789abcdef`:                 "opaque",
		`Authorization: Basic dXNlcjpodW50ZXIy`:                        "dXNl",
		`Authorization: Digest username="u", response="6629fae4"`:      "6629",
		`map[Authorization:[Bearer opaque word] Accept:[*/*]]`:         "opaque",
		`"Authorization":"Basic dXNlcjpodW50ZXIy"`:                     "dXNl",
		`a bearer opaqueword was refused`:                              "opaque",
		`the bearer token abc123 was refused`:                          "abc123",
		`dial https://user:hunter22@etcd:2379: refused`:                "hunter",
		`parse "https://user:hun/ter22@etcd:2379"`:                     "ter22",
		`https://a:hunter22@etcd1:2379,https://a:hunter22@etcd2:2379`:  "hunter",
		`etcd password="hunter22"`:                                     "hunter22",
		`password: abc12`:                                              "abc12",
		`password=x9`:                                                  "x9",
		`password='two words'`:                                         "words",
		`password="not \"its end"`:                                     "end",
		`password="never ended`:                                        "ended",
		`ETCD_PASSWORD hunter`:                                         "hunter",
		`ETCD_PASSWORD hunter2222`:                                     "hunter",
		`--password hunter https://etcd`:                               "hunter",
		`{"token": "s3cr3ts3cr3t"}`:                                    "s3cr3t",
		`{\"token\":\"s3cr3t s3cr3t\"}`:                                "s3cr3t",
		`Token: Secret: abc`:                                           "abc",
		`the token secret hunter2`:                                     "hunter2",
		`url?api_key=abcdef123456&x=1`:                                 "abcdef",
		`secret: 0123456789abcdef (bird)`:                              "0123456789",
		"pass\x1b[1mword: hunter":                                      "hunter",
		`-----BEGIN RSA PRIVATE KEY-----\nMIIEow`:                      "MIIE",
		`http.Header{"Authorization":[]string{"Basic dXNl cjpo"}}`:     "cjpo",
		`Header{"X-Token":[]string{"one two"}}`:                        "two",
		`"{\"password\":\"hunter22\"}"`:                                "hunter",
		`"{\\\"password\\\":\\\"one two\\\"}"`:                         "two",
		`AWS_SECRET_ACCESS_KEY=abc`:                                    "abc",
		`client-key-data: LS0t`:                                        "LS0t",
		`Spec{WireguardPrivateKey:"ab cd"}`:                            "cd",
		`password 'x y'`:                                               "y'",
		`the secret "hunter22" was refused`:                            "hunter22",
		`password="correct horse battery"`:                             "horse",
		`it was Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9v+/==`:              "Zm9v",
		`it was 0123456789abcdef0123456789abcdef`:                      "0123",
		`/some/path/0123456789abcdef0123456789abcdef`:                  "0123",
		`it was ghp_AbCdEfGhIjKlMnOpQrStUvWxYz012345`:                  "AbCd",
	} {
		if got := probe.Masked(line); strings.Contains(got, gone) || !strings.Contains(got, "(left out)") {
			t.Errorf("%s: %s", line, got)
		}
	}
	for _, whole := range []string{
		"Unable to create token for CNI kubeconfig",
		`cannot create resource "serviceaccounts/token" in API group "" in the namespace "kube-system"`,
		"open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory",
		"secret kube-system/calico-etcd-secrets not found",
		`MountVolume.SetUp failed for volume "etcd-certs" : secret "calico-etcd-secrets2" not found`,
		"the bearer token has expired",
		"calico-kube-controllers-7c8d9f5b6d-x2k9p-and-more of projectcalico.org/v3/StagedGlobalNetworkPolicy/default",
		"dial tcp 10.96.0.1:443: connect: connection refused",
		`Get "https://10.96.0.1:443/apis": x509: certificate has expired`,
	} {
		if got := probe.Masked(whole); got != whole {
			t.Errorf("%q became %q", whole, got)
		}
	}
}

func TestQuotedIsShort(t *testing.T) {
	t.Parallel()
	got := probe.Quoted("tried: " + strings.Repeat("ä", 80_000) + " error=the reason")
	if n := utf8.RuneCountInString(got); n > 310 || !strings.HasPrefix(got, "tried: ") {
		t.Errorf("%d characters of a text that is too long to be read: %q", n, got)
	}
	got = probe.Quoted("tried " + strings.Repeat("a ", 1000) + "password=hunter22hunter error=the reason")
	if !strings.HasPrefix(got, "tried a") || !strings.HasSuffix(got, "the reason") || strings.Contains(got, "hunter22") {
		t.Errorf("a long text: %q", got)
	}
	// PodSecurity names the violations, the worst first.
	got = probe.Quoted(`pods "calico-node-x7k2p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), ` +
		`hostPath volumes (volumes "lib-modules", "var-run-calico", ` + strings.Repeat(`"more", `, 40) + `), privileged (container "x")`)
	if n := utf8.RuneCountInString(got); n > 310 || !strings.HasPrefix(got, `pods "calico-node-x7k2p" is forbidden: violates PodSecurity`) ||
		!strings.Contains(got, "host namespaces (hostNetwork=true), hostPath volumes") {
		t.Errorf("a refusal: %q", got)
	}
}
