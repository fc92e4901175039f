package main

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/report"
)

// TestMistyped wants one line about what was mistyped, with what was probably meant.
func TestMistyped(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"run --node x --checks bpg":    `unknown check "bpg", did you mean bgp?`,
		"explain swap-onn":             `unknown check or cause "swap-onn", did you mean swap-on?`,
		"rnbook list":                  `unknown command "rnbook", did you mean runbook?`,
		"runbook lst":                  `unknown command "lst", did you mean list?`,
		"run --nod x":                  "unknown flag: --nod, did you mean --node?",
		"run --node x --timeout 60":    "--timeout 60 has no unit: write 60s, or 60m",
		"run --node x --timeout soon":  "invalid argument",
		"shell --node x --idle 5":      "--idle 5 has no unit: write 5s, or 5m",
		"run --check-timeout 7":        "--check-timeout 7 has no unit: write 7s, or 7m",
		"run --node x --timeout 1m30":  `missing unit in duration "1m30"; see`,
		"run --version":                "unknown flag: --version; see",
		"run -z":                       "unknown shorthand flag: 'z' in -z; see",
		"wholly-other":                 `unknown command "wholly-other"; see`,
		"analyze --output-formt table": "unknown flag: --output-formt, did you mean --output?",
	} {
		if exit, out, errs := call(t, strings.Fields(typed)...); exit != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q %q, want %q", typed, exit, out, errs, want)
		}
	}
}

// TestVersion wants the flag and the command to say the same.
func TestVersion(t *testing.T) {
	t.Parallel()
	_, verb, _ := call(t, "version")
	if exit, flag, errs := call(t, "--version"); exit != 0 || flag != verb || !strings.HasPrefix(verb, "calico-probe ") || errs != "" {
		t.Errorf("exit %d, %q, and the command says %q %s", exit, flag, verb, errs)
	}
}

// TestProgramIsBehindTheScreen runs the program: what a user types comes back in its messages.
func TestProgramIsBehindTheScreen(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "explain", "no\x1b[2J\u202esuch")
	if exit != report.ExitUsage || strings.ContainsAny(out+errs, "\x1b\u202e") || !strings.Contains(errs, "such") {
		t.Errorf("exit %d, %q, %q", exit, out, errs)
	}
}
