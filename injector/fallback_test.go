package injector

import (
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestAttempts passes every kind of failure: "-" is a skipped method, a number its seconds, own its default time.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent bool
		pod    *attempt
		want   string // ephemeral, exec, ssh
	}{
		"no right":             {pod: &attempt{reason: facts.ReasonRBAC}, want: "40 own own"},
		"policy":               {pod: &attempt{reason: facts.ReasonAdmission}, want: "40 own own"},
		"policy, silent":       {pod: &attempt{reason: facts.ReasonAdmission}, silent: true, want: "5 2 own"},
		"quota":                {pod: &attempt{reason: facts.ReasonQuota}, want: "40 own own"},
		"no image":             {pod: &attempt{reason: facts.ReasonImage}, want: "- own own"},
		"kubelet silent":       {pod: &attempt{reason: facts.ReasonKubelet, waited: true}, silent: true, want: "- 2 own"},
		"kubelet idle":         {pod: &attempt{reason: facts.ReasonKubelet, waited: true}, want: "- 2 own"},
		"kubelet says no":      {pod: &attempt{reason: facts.ReasonKubelet}, want: "40 own own"},
		"runtime hangs":        {pod: &attempt{reason: facts.ReasonRuntime, waited: true}, want: "- - own"},
		"runtime says no":      {pod: &attempt{reason: facts.ReasonRuntime}, want: "40 own own"},
		"10250 not reached":    {pod: &attempt{reason: facts.ReasonAttach}, want: "- - own"},
		"broke off":            {pod: &attempt{}, want: "40 own own"},
		"ran and said nothing": {pod: &attempt{method: MethodPod, mute: "workload:1"}, want: "- own own"},
		"API fails":            {pod: &attempt{reason: facts.ReasonAPI}, want: "- - own"},
		"namespace is missing": {pod: &attempt{reason: facts.ReasonNamespace}, want: "40 own own"},
	} {
		var got []string
		for _, method := range []string{MethodEphemeral, MethodExec, MethodSSH} {
			a := limitsOf(Method{Name: method}, true, []attempt{*c.pod}, c.silent)
			text := strings.TrimSuffix(a.start.String(), "s")
			switch {
			case a.skip == "" && a.start == 0:
				text = "own"
			case a.skip != "":
				text = "-"
				if a.because != c.pod.reason {
					t.Errorf("%s: %s is skipped because of %q", name, method, a.because)
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		method         Method
		others, silent bool
		want           limits
	}{
		"first of many":        {Method{Name: MethodPod}, true, false, limits{start: StartUsual, idle: idleUsual}},
		"the only one":         {Method{Name: MethodPod}, false, false, limits{start: StartUsual}},
		"first, silent":        {Method{Name: MethodPod}, true, true, limits{start: startDoubted}},
		"the only one, silent": {Method{Name: MethodPod}, false, true, limits{start: startSilent}},
		"once more, with time": {Method{Name: MethodPod, again: true}, true, false, limits{start: StartUsual}},
		"exec for longer":      {Method{Name: MethodExec, again: true}, true, false, limits{start: startSilent}},
	} {
		if got := limitsOf(c.method, c.others, nil, c.silent); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	hung := []attempt{{method: MethodExec, reason: facts.ReasonKubelet, waited: true}}
	if got := limitsOf(Method{Name: MethodPod}, true, hung, true); got.skip != "" || got.start != startDoubted {
		t.Errorf("a pod after an exec that hung: %+v", got)
	}
	slow := &PlacementError{Reason: facts.ReasonRuntime, Waited: true}
	if got := attemptOf(Method{Name: MethodPod}, slow, 9*time.Second, limits{
		start: StartUsual, idle: idleUsual,
	}); !got.early || !got.waited {
		t.Errorf("%+v", got)
	}
	if got := attemptOf(Method{Name: MethodPod}, slow, 40*time.Second, limits{
		start: StartUsual, idle: idleUsual,
	}); got.early {
		t.Errorf("%+v", got)
	}
}

// TestSilence requires a message with the waiting time for a silent node.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m      Method
		silent bool
		want   time.Duration
	}{
		{Method{Name: MethodPod}, false, idleUsual},
		{Method{Name: MethodPod}, true, startDoubted},
		{Method{Name: MethodPod, again: true}, false, StartUsual},
		{Method{Name: MethodExec}, false, maxSilent * replyLimit},
		{Method{Name: MethodExec}, true, maxSilent * startExec},
		{Method{Name: MethodExec, again: true}, true, startSilent},
		{Method{Name: MethodSSH}, true, usualConnect},
	} {
		if got := limitsOf(c.m, true, nil, c.silent).silence(c.m); got != c.want {
			t.Errorf("%s, again %v, silent %v: %v, want %v", c.m.Name, c.m.again, c.silent, got, c.want)
		}
	}
}

// TestOnceMore requires the full time for a slow node, and no wait for a hung one. The difference is whether exec into
// a running container works.
func TestOnceMore(t *testing.T) {
	t.Parallel()
	pod := attempt{method: MethodPod, waited: true, early: true}
	methods := []Method{{Name: MethodPod}, {Name: MethodEphemeral}, {Name: MethodExec}, {Name: MethodSSH}}
	for name, c := range map[string]struct {
		steps  []Method
		before []attempt
		want   string
	}{
		"nothing tried": {methods, nil, ""},
		"not early":     {methods, []attempt{{method: MethodPod, waited: true}}, ""},
		"exec left out": {methods, []attempt{pod, {method: MethodSSH}}, MethodExec},
		"exec hangs": {methods, []attempt{pod, {method: MethodExec, waited: true}, {method: MethodSSH}},
			MethodExec},
		"exec hangs for longer": {methods,
			[]attempt{
				pod, {method: MethodExec, waited: true}, {method: MethodSSH}, {method: MethodExec, waited: true, again: true},
			}, ""},
		"exec answers at last": {methods,
			[]attempt{pod, {method: MethodExec, waited: true}, {method: MethodSSH}, {method: MethodExec, again: true}},
			MethodPod},
		"exec answers that it cannot": {methods, []attempt{pod, {method: MethodExec}, {method: MethodSSH}}, MethodPod},
		"no exec":                     {methods[:1], []attempt{pod}, MethodPod},
		"exec first, pod early":       {named(MethodExec, MethodPod), []attempt{{method: MethodExec}, pod}, MethodPod},
		"ssh first, pod early":        {named(MethodSSH, MethodPod), []attempt{{method: MethodSSH}, pod}, MethodPod},
	} {
		if m, worth := secondAttempt(c.steps, c.before); worth != (c.want != "") || worth && (m.Name != c.want || !m.again) {
			t.Errorf("%s: %+v, %v", name, m, worth)
		}
	}
}

// named returns methods without an Open.
func named(names ...string) (out []Method) {
	for _, name := range names {
		out = append(out, Method{Name: name})
	}
	return out
}
