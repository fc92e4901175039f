package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/report"
)

// TestDefaults wants the file's values where the command line has none, and one line about a file that is wrong.
func TestDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "defaults.yaml")
	t.Setenv(envDefaults, file)
	for content, c := range map[string]struct{ args, want string }{
		"via: nonsense\n":                {"run node-a", `unknown access method "nonsense"`},
		"via: nonsense\n#\n":             {"run node-a --via otherwise", `unknown access method "otherwise"`},
		"profile: nonsense\n":            {"run node-a", `"nonsense"`},
		"imag: x\n":                      {"run node-a", `"imag" cannot have a default, did you mean image?`},
		"node: x\n":                      {"version", `"node" cannot have a default`},
		"- a list\n":                     {"version", file + ": "},
		"calico-namespace: NO.NAME\n":    {"run node-a", "calico-namespace: it is no name of a namespace"},
		"color: purple\n":                {"version", "color: "},
		"image: x\nimage: y\nvia: ssh\n": {"version", `"image" already set`},
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		exit, out, errs := call(t, strings.Fields(c.args)...)
		if exit != report.ExitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%q, %s: exit %d, %q %q, want %q", content, c.args, exit, out, errs, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("image: registry.example/probe:v1\nnamespace: debug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, _, errs := call(t, "run", "node-a", "--via", "local", "-n", "NO"); !strings.Contains(errs, `"NO"`) {
		t.Errorf("the command line does not win: exit %d, %s", exit, errs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if exit, _, errs := call(t, "version"); exit != report.ExitUsage || !strings.Contains(errs, "cannot be read") {
		t.Errorf("a file that was named and is missing: exit %d, %s", exit, errs)
	}
}
