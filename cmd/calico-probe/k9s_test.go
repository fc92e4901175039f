package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestK9sPlugins runs each plugin of deploy/k9s as k9s does, which replaces variables with values. Each value must
// reach calico-probe unchanged: a context's name may contain shell syntax, and k9s may use another kubeconfig.
func TestK9sPlugins(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the plugins take a shell")
	}
	var file struct {
		Plugins map[string]struct {
			Command string
			Args    []string
		}
	}
	must.Do(t, yaml.Unmarshal([]byte(read(t, "../../deploy/k9s/plugins.yaml")), &file))
	bin := t.TempDir()
	for name, script := range map[string]string{
		"calico-probe": `printf '%s|' "$KUBECONFIG" "$@"`, "less": "cat",
	} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	const context, config = `it's "$(touch gone)"; x`, "/a b/one:/two"
	values := map[string]string{"$CONTEXT": context, "$KUBECONFIG": config, "$NAMESPACE": "default", "$NAME": "a-name",
		"$COL-NODE": "worker-3"}
	variable := regexp.MustCompile(`\$!?[\w-]+`) // as k9s v0.50 finds them
	for name, want := range map[string]string{
		"calico-probe-run":   "run|--context|" + context + "|--node|a-name|",
		"calico-probe-shell": "shell|--context|" + context + "|--node|a-name|",
		"calico-probe-mesh":  "mesh|--context|" + context + "|",
		"calico-probe-pod":   "shell|--context|" + context + "|--node|worker-3|-c|run; drops default/a-name|",
	} {
		plugin := file.Plugins[name]
		var args []string
		for _, arg := range plugin.Args {
			args = append(args, variable.ReplaceAllStringFunc(arg, func(found string) string {
				value, known := values[found]
				if !known {
					t.Errorf("%s: k9s has no %s", name, found)
				}
				return value
			}))
		}
		cmd := exec.CommandContext(t.Context(), plugin.Command, args...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != config+"|"+want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, out, config+"|"+want)
		}
		if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
			t.Errorf("%s: a value was obeyed: %v %v", name, left, err)
		}
	}
	if n := len(file.Plugins); n != 4 {
		t.Errorf("%d plugins", n)
	}
	for _, page := range regexp.MustCompile(`docs/[\w.-]+\.md`).FindAllString(allOf(t, "../../deploy"), -1) {
		if _, err := os.Stat("../../" + page); err != nil {
			t.Errorf("a file of deploy names %s: %v", page, err)
		}
	}
}

// allOf returns the text of all files below a folder.
func allOf(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	must.Do(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all.WriteString(read(t, path))
		}
		return err
	}))
	return all.String()
}
