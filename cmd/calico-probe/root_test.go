package main

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
)

// TestMistyped requires one line about a mistyped word, with the likely intention.
func TestMistyped(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"run --node x --checks bpg":    `unknown check "bpg", did you mean bgp?`,
		"explain swap-onn":             `unknown check or cause "swap-onn", did you mean swap-on?`,
		"rnbook list":                  `unknown command "rnbook", did you mean runbook?`,
		"runbook lst":                  `unknown command "lst", did you mean list?`,
		"prefligth --node node-a":      `unknown command "prefligth", did you mean preflight?`,
		"runbook rnu x --node node-a":  `unknown command "rnu"`,
		"run bgp-session":              `"bgp-session" names checks: use 'calico-probe run NODE --checks bgp-session'`,
		"status":                       `unknown command "status": use 'calico-probe run NODE'`,
		"run --node a,,b":              "a node name is missing",
		"version --color purple":       "use auto, always or never",
		"run --nod x":                  "unknown flag: --nod, did you mean --node?",
		"run --node x --timeout 60":    "--timeout 60 has no unit: write 60s or 60m",
		"run --node x --timeout soon":  "invalid argument",
		"shell --node x --idle 5":      "--idle 5 has no unit: write 5s or 5m",
		"run --check-timeout 7":        "--check-timeout 7 has no unit: write 7s or 7m",
		"run --node x --timeout 1m30":  `missing unit in duration "1m30"; see`,
		"run --version":                "unknown flag: --version; see",
		"run -z":                       "unknown shorthand flag: 'z' in -z; see",
		"-A":                           "it is a flag of 'calico-probe run'; see",
		"--node node-b":                "unknown flag: --node: it is a flag of 'calico-probe run'; see",
		"wholly-other":                 `unknown command "wholly-other"; see`,
		"analyze --output-formt table": "unknown flag: --output-formt, did you mean --output?",
	} {
		if exit, out, errs := call(t, strings.Fields(typed)...); exit != 2 || out != "" ||
			strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q %q, want %q", typed, exit, out, errs, want)
		}
	}
}

// TestOptions requires kubectl's flags in one list instead of each verb's help, and that they still work and are
// completed.
func TestOptions(t *testing.T) {
	t.Parallel()
	_, all, _ := call(t, "options")
	for _, flag := range []string{"--kubeconfig", "--as", "--token", "--context", "--namespace"} {
		if !strings.Contains(all, flag+" ") {
			t.Errorf("options has no %s:\n%s", flag, all)
		}
	}
	for _, verb := range []string{"run", "shell", "runbook run", "preflight", "clean", "serve"} {
		exit, help, _ := call(t, append(strings.Fields(verb), "--help")...)
		if exit != 0 || strings.Contains(help, "      --kubeconfig") || strings.Contains(help, "--token string") ||
			!strings.Contains(help, "--namespace") || !strings.Contains(help, "--context") {
			t.Errorf("%s --help:\n%s", verb, help)
		}
		if !strings.HasSuffix(help, "\nUse 'calico-probe options' to list kubectl's flags, such as --kubeconfig and --as.\n") {
			t.Errorf("%s --help does not end with where the flags of kubectl are:\n%s", verb, help)
		}
		if _, out, _ := call(t, append(append([]string{"__complete"}, strings.Fields(verb)...),
			"--kubeco")...); !strings.HasPrefix(out, "--kubeconfig") {
			t.Errorf("%s: %s", verb, out)
		}
	}
	if _, help, _ := call(t, "explain", "--help"); strings.Contains(help, "options' to list") {
		t.Errorf("explain takes none of them:\n%s", help)
	}
}

// TestVersion requires the same output from the flag and the command.
func TestVersion(t *testing.T) {
	t.Parallel()
	_, verb, _ := call(t, "version")
	if exit, flag, errs := call(t, "--version"); exit != 0 || flag != verb ||
		!strings.HasPrefix(verb, "calico-probe ") || errs != "" {
		t.Errorf("exit %d, %q, and the command says %q %s", exit, flag, verb, errs)
	}
}

// TestProgramIsBehindTheScreen runs the program: what a user types appears in its messages.
func TestProgramIsBehindTheScreen(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "explain", "no\x1b[2J\u202esuch")
	if exit != report.ExitUsage || strings.ContainsAny(out+errs, "\x1b\u202e") || !strings.Contains(errs, "such") {
		t.Errorf("exit %d, %q, %q", exit, out, errs)
	}
}
