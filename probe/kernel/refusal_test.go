package kernel

import (
	"strings"
	"testing"
)

// TestSaid splits Felix's comments, in the formats of both versions.
func TestSaid(t *testing.T) {
	t.Parallel()
	for comments, want := range map[string]string{
		"cali:JB8QlG6bRG3vqMJh;":                                                 " / ",
		"cali:q9-9Gdat5_ETkrCZ; Profile kns.default ingress":                     " / Profile kns.default ingress",
		"cali:DJOOjxg8I_PhkB_z; Drop if no profiles matched":                     "Drop if no profiles matched / ",
		"cali:DJOOjxg8I_PhkB_z|NetworkPolicy default/deny egress":                " / NetworkPolicy default/deny egress",
		"cali:DJOOjxg8I_PhkB_z|Policy default/knp.default.deny ingress":          " / Policy default/knp.default.deny ingress",
		"cali:DJOOjxg8I_PhkB_z; GlobalNetworkPolicy all egress; of=this; cali:x": "of=this|cali:x / GlobalNetworkPolicy all egress",
		"Policy is not\x1b[2J an egress":                                         "Policy is not?[2J an egress / ",
	} {
		own, purpose := splitComments(strings.Split(comments, "|"))
		if got := strings.Join(own, "|") + " / " + purpose; got != want {
			t.Errorf("%q: %q, want %q", comments, got, want)
		}
	}
}
