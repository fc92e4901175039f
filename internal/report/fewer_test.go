package report

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestFewer requires one line with the reason if the first access method failed and checks were skipped, and no line if
// nothing was lost.
func TestFewer(t *testing.T) {
	t.Parallel()
	placed := func(status probe.Status, method, saw string) probe.Result {
		return probe.Result{Check: probe.CheckPlaced, Target: method, Status: status, Saw: saw}
	}
	failed := placed(probe.Info, "pod", "image nosuch/x:1 cannot be pulled")
	skipped := probe.Result{Check: "node-firewall", Status: probe.Skip, Saw: "no right"}
	part := probe.Result{Check: "pod-ping", Status: probe.Skip, Saw: "no pod of IPv6"}
	ok := probe.Result{Check: "pod-ping", Status: probe.OK, Saw: "5 of 5"}
	line := "fewer checks: the probe ran via exec, 1 check skipped; via pod failed: image nosuch/x:1 cannot be pulled"
	for name, c := range map[string]struct {
		answers []probe.Result
		want    bool
	}{
		"fallback, one check skipped": {[]probe.Result{failed, placed(probe.OK, "exec", "running"), ok, skipped}, true},
		"fallback, a target skipped":  {[]probe.Result{failed, placed(probe.OK, "exec", "running"), ok, part}, false},
		"exec first, and then a pod": {[]probe.Result{placed(probe.Info, "exec", "no shell"),
			placed(probe.OK, "pod", "running"), ok, skipped}, false},
		"no fallback":                     {[]probe.Result{placed(probe.OK, "pod", "running"), ok, skipped}, false},
		"no method worked, which is said": {[]probe.Result{placed(probe.Unknown, "pod", "no image"), skipped}, false},
	} {
		for _, format := range []string{"table", "wide", "markdown"} {
			got := shownAs(t, format, Options{Family: familyOf}, c.answers)
			text := strings.Join(strings.Fields(got), " ")
			if strings.Contains(text, line) != c.want || strings.Contains(text, "fewer checks") != c.want {
				t.Errorf("%s, %s:\n%s", name, format, got)
			}
		}
	}
}

// TestWorstAnswer requires that Markdown lists only the bad answers of a check that has one. A check with several good
// statuses must appear once, under the first of info, ok and skip.
func TestWorstAnswer(t *testing.T) {
	t.Parallel()
	of := func(check string, status probe.Status) probe.Result {
		return probe.Result{Check: check, Status: status, Saw: "saw " + string(status)}
	}
	got := shownAs(t, "markdown", Options{}, []probe.Result{
		of("pod-ping", probe.OK), of("pod-ping", probe.Fail), of("pod-tcp", probe.Unknown), of("pod-tcp", probe.Skip),
		of("node-disk", probe.Skip), of("node-disk", probe.OK), of("node-disk", probe.Info), of("node-swap", probe.OK),
	})
	for _, line := range []string{"\ninfo: `node-disk`\n", "\nok: `node-swap`\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "\nskip: ") {
		t.Errorf("a check that has an answer is listed as skipped:\n%s", got)
	}
}
