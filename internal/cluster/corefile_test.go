package cluster

import (
	"slices"
	"testing"
)

// TestCorefileZones reads what the plugin kubernetes answers for, and nothing where the text may not have it all.
func TestCorefileZones(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"kubeadm's": {".:53 {\n    errors\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n       pods insecure\n    }\n    forward . /etc/resolv.conf\n}\n",
			[]string{"cluster.local"}},
		"two servers":   {"a {\n kubernetes K8s.corp.internal. cluster.local { # old\n }\n}\nb {\n kubernetes cluster.local\n}\n", []string{"k8s.corp.internal", "cluster.local"}},
		"no zone":       {"cluster.local {\n kubernetes {\n }\n}\n", nil},
		"an import":     {".:53 {\n import custom/*.override\n kubernetes cluster.local {\n }\n}\n", nil},
		"a placeholder": {".:53 {\n kubernetes {$ZONE} {\n }\n}\n", nil},
		"a comment":     {"# kubernetes a.b\n.:53 {\n forward . 1.1.1.1\n}\n", nil},
		"nothing":       {"", nil},
		"all names":     {".:53 {\n kubernetes . {\n }\n}\n", nil},
		"a network":     {".:53 {\n kubernetes cluster.local 10.96.0.0/12 {\n }\n}\n", []string{"cluster.local"}},
		"a rewrite":     {".:53 {\n rewrite name suffix .corp.local .cluster.local\n kubernetes cluster.local\n}\n", nil},
		"a stub":        {"corp.local {\n forward corp.local 10.1.1.1\n}\n.:53 {\n kubernetes cluster.local\n}\n", nil},
	} {
		if got := zonesOf(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
