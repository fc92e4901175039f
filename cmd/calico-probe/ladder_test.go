package main

import (
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/injector"
)

// TestAttempts walks the ladder past every kind of obstacle: "-" is a way not tried,
// a number its seconds, own
// what it takes by itself.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent bool
		pod    *tried
		want   string // ephemeral, exec, ssh
	}{
		"no right":             {pod: &tried{reason: injector.ReasonRBAC}, want: "40 own own"},
		"policy":               {pod: &tried{reason: injector.ReasonAdmission}, want: "40 own own"},
		"policy, silent":       {pod: &tried{reason: injector.ReasonAdmission}, silent: true, want: "5 3 own"},
		"quota":                {pod: &tried{reason: injector.ReasonQuota}, want: "40 own own"},
		"no image":             {pod: &tried{reason: injector.ReasonImage}, want: "- own own"},
		"kubelet silent":       {pod: &tried{reason: injector.ReasonKubelet, waited: true}, silent: true, want: "- 3 own"},
		"kubelet idle":         {pod: &tried{reason: injector.ReasonKubelet, waited: true}, want: "- 3 own"},
		"kubelet says no":      {pod: &tried{reason: injector.ReasonKubelet}, want: "40 own own"},
		"runtime hangs":        {pod: &tried{reason: injector.ReasonRuntime, waited: true}, want: "- - own"},
		"runtime says no":      {pod: &tried{reason: injector.ReasonRuntime}, want: "40 own own"},
		"10250 not reached":    {pod: &tried{reason: injector.ReasonAttach}, want: "- - own"},
		"broke off":            {pod: &tried{}, want: "40 own own"},
		"API fails":            {pod: &tried{reason: injector.ReasonAPI}, want: "- - own"},
		"namespace is missing": {pod: &tried{reason: injector.ReasonNamespace}, want: "40 own own"},
	} {
		var got []string
		for _, way := range []string{wayEphemeral, wayExec, waySSH} {
			a := attemptOf(rung{name: way}, true, []tried{*c.pod}, c.silent)
			text := strings.TrimSuffix(a.start.String(), "s")
			switch {
			case a.skip == "" && a.start == 0:
				text = "own"
			case a.skip != "":
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
