package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMain hides the developer's own defaults from the tests.
func TestMain(m *testing.M) {
	file, err := os.CreateTemp("", "defaults")
	if err == nil {
		err = os.Setenv(envDefaults, file.Name())
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.Remove(file.Name())
	os.Exit(code)
}

// TestDefaults requires the file's values if the command line has none, and one line about an invalid file.
func TestDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "defaults.yaml")
	t.Setenv(envDefaults, file)
	for content, c := range map[string]struct{ args, want string }{
		"via: nonsense\n":                {"run node-a", `unknown access method "nonsense"`},
		"via: nonsense\n#\n":             {"run node-a --via otherwise", `unknown access method "otherwise"`},
		"profile: nonsense\n":            {"run node-a", `"nonsense"`},
		"via: kubelet\n":                 {"run node-a", "kubelet can only be set on the command line"},
		"imag: x\n":                      {"run node-a", `"imag" cannot have a default, did you mean image?`},
		"node: x\n":                      {"run node-a", `"node" cannot have a default`},
		"- a list\n":                     {"run node-a", file + ": "},
		"calico-namespace: NO.NAME\n":    {"run node-a", "calico-namespace: invalid namespace"},
		"color: purple\n":                {"run node-a", "color: "},
		"image: x\nimage: y\nvia: ssh\n": {"run node-a", `"image" already set`},
	} {
		must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		exit, out, errs := call(t, strings.Fields(c.args)...)
		if exit != report.ExitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%q, %s: exit %d, %q %q, want %q", content, c.args, exit, out, errs, c.want)
		}
	}
	must.Do(t, os.WriteFile(file, []byte("image: registry.example/probe:v1\nnamespace: debug\n"), 0o600))
	if exit, _, errs := call(t, "run", "node-a", "--via", "local", "-n", "NO"); !strings.Contains(errs, `"NO"`) {
		t.Errorf("the command line does not win: exit %d, %s", exit, errs)
	}
	must.Do(t, os.Remove(file))
	for name, says := range map[string]string{file: "cannot be read", filepath.Dir(file): "is not a regular file"} {
		t.Setenv(envDefaults, name)
		if exit, _, errs := call(t, "run", "node-a"); exit != report.ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %s", name, exit, errs)
		}
		if exit, _, errs := call(t, "version"); exit != report.ExitHealthy {
			t.Errorf("version reads defaults: exit %d, %s", exit, errs)
		}
	}
}
