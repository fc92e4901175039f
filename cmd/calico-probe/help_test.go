package main

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestHelpOfNothing rejects help for an unknown verb, and prints help for a verb.
func TestHelpOfNothing(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "help", "nonsense")
	if exit != 2 || out != "" || !strings.Contains(errs, `unknown command "nonsense"`) {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
	for _, args := range [][]string{{"help"}, {"help", "run"}, {"help", "runbook", "run"}} {
		if exit, out, errs := call(t, args...); exit != 0 || out == "" || errs != "" {
			t.Errorf("%v: exit %d\n%s%s", args, exit, out, errs)
		}
	}
}

// TestOptionsNamesMesh requires the verbs that 'options' names to have its flags, including mesh.
func TestOptionsNamesMesh(t *testing.T) {
	t.Parallel()
	root := (&app{flags: genericclioptions.NewConfigFlags(true)}).command()
	options, _, err := root.Find([]string{nameOptions})
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(options.Long, "such as ")
	list = strings.ReplaceAll(strings.TrimSuffix(list, "."), " and ", ", ")
	if !strings.Contains(list, "mesh") {
		t.Errorf("mesh is not named: %s", options.Long)
	}
	for _, verb := range strings.Split(list, ", ") {
		cmd, _, err := root.Find(strings.Fields(verb))
		if err != nil || cmd == root || cmd.Flags().Lookup("kubeconfig") == nil {
			t.Errorf("%s has no --kubeconfig: %v", verb, err)
		}
	}
}
