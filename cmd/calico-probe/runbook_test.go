package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/probe/must"
)

// typedBook runs the program in this process.
func typedBook(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	exit = Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
		append([]string{"runbook"}, args...))
	return exit, out.String(), errs.String()
}

// TestRunbookUsage requires one line and exit code 2 for wrong usage.
func TestRunbookUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	must.Do(t, os.WriteFile(broken, []byte("apiVersion: x\n"), 0o600))
	for want, args := range map[string][]string{
		"did you mean node-not-ready":              {"run", "node-not-redy", "--node", "a"},
		"no such file":                             {"run", "./nowhere.yaml", "--node", "a"},
		"no node given":                            {"run", "node-not-ready"},
		"name one runbook":                         {"run"},
		"takes no parameter \"x\": it has none":    {"run", "node-not-ready", "--node", "a", "--param", "x=1"},
		"--param takes NAME=VALUE":                 {"run", "node-not-ready", "--node", "a", "--param", "x"},
		"no ask named \"fixd\" (did you":           {"run", "node-not-ready", "--node", "a", "--answer", "fixd=done"},
		"\"maybe\" is not a valid answer to fixed": {"run", "node-not-ready", "--node", "a", "--answer", "fixed=maybe"},
		"no action named \"all\"":                  {"run", "node-not-ready", "--node", "a", "--allow-actions", "all"},
		"leave out \"node-not-ready\"":             {"run", "node-not-ready", "--resume", "x"},
		"leave out --node":                         {"run", "--resume", "x", "--node", "a"},
		"opening the journal":                      {"run", "--resume", filepath.Join(dir, "nothing")},
		"is not the journal of a runbook":          {"record", broken},
		"unknown access method \"pigeon\"":         {"run", "node-not-ready", "--node", "a", "--via", "pigeon"},
		"unknown output format \"table\"":          {"run", "node-not-ready", "--node", "a", "-o", "table"},
		"--timeout and --run-timeout must be":      {"run", "node-not-ready", "--node", "a", "--run-timeout", "0s"},
		"apiVersion must be":                       {"run", broken, "--node", "a"},
		"reading runbooks":                         {"list", "--runbooks", filepath.Join(dir, "nothing")},
		"unknown command \"rnu\"":                  {"rnu"},
		"lint takes runbook files":                 {"lint"},
	} {
		exit, stdout, stderr := typedBook(t, args...)
		if exit != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, want a line with %q", args, exit, stdout+stderr, want)
		}
	}
}

// TestRunbookList lists the built-in runbooks, those of a folder, and an invalid one.
func TestRunbookList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, own, _ := typedBook(t, "show", "node-not-ready")
	for name, text := range map[string]string{"mine.yaml": own, "broken.yml": "apiVersion: x\n", "notes.txt": "x"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	exit, list, _ := typedBook(t, "list", "-o", "wide", "--runbooks", dir)
	for _, want := range []string{"pods-no-network ", "built in", "mine.yaml, replaces builtin/node-not-ready.yaml", "broken ", "see 'calico-probe runbook lint'"} {
		if exit != 0 || !strings.Contains(list, want) {
			t.Errorf("list lacks %q:\n%s", want, list)
		}
	}
	if exit, out, errs := typedBook(t, "lint", filepath.Join(dir, "mine.yaml")); exit != 0 || out != "" ||
		!strings.Contains(errs, ": valid") {
		t.Errorf("lint of a good one: %d %s%s", exit, out, errs)
	}
	if exit, out, errs := typedBook(t, "lint", filepath.Join(dir, "broken.yml"),
		filepath.Join(dir, "mine.yaml")); exit != 2 || !strings.HasPrefix(out, filepath.Join(dir, "broken.yml")+":1: ") ||
		!strings.Contains(errs, "mine.yaml: valid") {
		t.Errorf("lint of a broken one: %d %s%s", exit, out, errs)
	}
	if exit, out, errs := typedBook(t, "lint", dir); exit != 2 || !strings.Contains(out, "broken.yml:1: ") ||
		!strings.Contains(errs, "mine.yaml: valid") {
		t.Errorf("lint of a folder: %d %s%s", exit, out, errs)
	}
	odd := filepath.Join(dir, "odd.yaml")
	text := "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: odd}\nspec:\n  title: t\n  steps:\n  - run: {checks: [bgp-session]}\n  - {note: x, when: status(\"node-swap\") == \"fail\"}\n"
	must.Do(t, os.WriteFile(odd, []byte(text), 0o600))
	if exit, out, errs := typedBook(t, "lint", odd); exit != 0 || !strings.HasPrefix(out, odd+":8: warning: ") ||
		strings.Count(out, "\n") != 1 || !strings.Contains(errs, "valid; warnings: 1") {
		t.Errorf("lint of an odd one: %d %s%s", exit, out, errs)
	}
	if _, list, _ := typedBook(t, "list"); slices.ContainsFunc(strings.Split(list, "\n"),
		func(line string) bool { return len(line) > 80 }) {
		t.Errorf("list is wider than a terminal:\n%s", list)
	}
}

// TestRunbookKnown requires the built-in runbooks to be valid for this program.
func TestRunbookKnown(t *testing.T) {
	t.Parallel()
	items, err := library(nil)
	if err != nil || len(items) == 0 {
		t.Fatal(err)
	}
	for _, it := range items {
		if it.Err != nil {
			t.Error(it.Err)
			continue
		}
		for _, odd := range it.Runbook.Warnings() {
			t.Error(odd)
		}
	}
	if len(knownToRunbooks().Causes) == 0 {
		t.Error("no cause is known")
	}
}
