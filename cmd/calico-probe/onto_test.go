package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
)

// TestAttempts walks the ladder past every kind of obstacle: "-" is a way not tried,
// a number its seconds.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent bool
		pod    *tried
		want   string // ephemeral, exec, ssh
	}{
		"no right":             {pod: &tried{reason: injector.ReasonRBAC}, want: "40 40 40"},
		"policy":               {pod: &tried{reason: injector.ReasonAdmission}, want: "40 40 40"},
		"policy, silent":       {pod: &tried{reason: injector.ReasonAdmission}, silent: true, want: "5 5 5"},
		"quota":                {pod: &tried{reason: injector.ReasonQuota}, want: "40 40 40"},
		"no image":             {pod: &tried{reason: injector.ReasonImage}, want: "- 40 40"},
		"kubelet silent":       {pod: &tried{reason: injector.ReasonKubelet, waited: true}, silent: true, want: "- - 5"},
		"kubelet says no":      {pod: &tried{reason: injector.ReasonKubelet}, want: "40 40 40"},
		"runtime hangs":        {pod: &tried{reason: injector.ReasonRuntime, waited: true}, want: "- - 40"},
		"runtime says no":      {pod: &tried{reason: injector.ReasonRuntime}, want: "40 40 40"},
		"10250 not reached":    {pod: &tried{reason: injector.ReasonAttach}, want: "- - 40"},
		"API fails":            {pod: &tried{reason: injector.ReasonAPI}, want: "- - 40"},
		"namespace is missing": {pod: &tried{reason: injector.ReasonNamespace}, want: "40 40 40"},
	} {
		var got []string
		for _, way := range []string{wayEphemeral, wayExec, waySSH} {
			a := attemptOf(rung{name: way}, true, []tried{*c.pod}, c.silent)
			text := strings.TrimSuffix(a.start.String(), "s")
			if a.skip != "" {
				text = "-"
				if a.because != c.pod.reason {
					t.Errorf("%s: %s is skipped because of %q", name, way, a.because)
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		step           rung
		others, silent bool
		want           attempt
	}{
		"first of many":        {rung{name: wayPod}, true, false, attempt{start: startUsual, idle: idle}},
		"the only one":         {rung{name: wayPod}, false, false, attempt{start: startUsual}},
		"first, silent":        {rung{name: wayPod}, true, true, attempt{start: startDoubted}},
		"the only one, silent": {rung{name: wayPod}, false, true, attempt{start: startSilent}},
		"once more, with time": {rung{name: wayPod, patient: true}, true, false, attempt{start: startUsual}},
	} {
		if got := attemptOf(c.step, c.others, nil, c.silent); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	slow := &injector.PlacementError{Reason: injector.ReasonRuntime, Waited: true}
	if got := refusalOf(wayPod, slow, 9*time.Second, attempt{start: startUsual, idle: idle}); !got.early || !got.waited {
		t.Errorf("%+v", got)
	}
	if got := refusalOf(wayPod, slow, 40*time.Second, attempt{start: startUsual, idle: idle}); got.early {
		t.Errorf("%+v", got)
	}
}

func TestDestination(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "w3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}, {Type: corev1.NodeInternalIP, Address: "fd00::7"},
	}}}
	for ssh, want := range map[string]string{
		"": "10.0.0.7", "admin@{ip}": "admin@10.0.0.7", "{node}.example.com": "worker-3.example.com", "jump": "jump",
	} {
		if got := (&runOptions{ssh: ssh}).destination(node); got != want {
			t.Errorf("%q: %s, want %s", ssh, got, want)
		}
	}
	if got := (&runOptions{ssh: "admin@{ip}"}).destination(&corev1.Node{}); got != "" {
		t.Errorf("without an address: %s", got)
	}
}
