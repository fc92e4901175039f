package main

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/injector"
)

// TestDebugProfileMistakes requires one line and exit code 2 for each impossible profile, before any request.
func TestDebugProfileMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--debug-profile baseline":               "kubectl's profile baseline has no host namespaces, so its probe cannot test the node: use one of general, sysadmin, netadmin",
		"--debug-profile restricted":             "kubectl's profile restricted has no host namespaces",
		"--debug-profile legacy":                 "kubectl removes this profile: use one of general",
		"--debug-profile root":                   "unknown profile: root: use one of general, sysadmin, netadmin",
		"--debug-profile=":                       "unknown profile: ",
		"--debug-profile general --via ssh":      "--via ssh creates neither: use --via pod,ephemeral",
		"--debug-profile general --via pod,exec": "--via exec creates neither",
		"--debug-profile general --via api":      "--via api creates neither",
		"--debug-profile netadmin --privileged":  "--debug-profile netadmin sets the rights: leave out --privileged",
	} {
		exit, out, errs := call(t, append(strings.Fields("shell --node a --kubeconfig /nonexistent -c help"),
			strings.Fields(args)...)...)
		if exit != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q %q, want %q", args, exit, out, errs, want)
		}
	}
	for _, name := range injector.Profiles {
		good := "shell --node a --kubeconfig /nonexistent -c help --debug-profile " + name
		if exit, _, errs := call(t, strings.Fields(good)...); exit == 2 {
			t.Errorf("%s: %s", name, errs)
		}
	}
	if exit, _, errs := call(t, "run", "a", "--debug-profile", "general"); exit != 2 {
		t.Errorf("run takes it: exit %d %s", exit, errs)
	}
}

// TestDebugProfileCompletes completes the flag's values.
func TestDebugProfileCompletes(t *testing.T) {
	t.Parallel()
	_, out, _ := call(t, "__complete", "shell", "--debug-profile", "")
	if !strings.HasPrefix(out, strings.Join(injector.Profiles, "\n")) {
		t.Error(out)
	}
}
