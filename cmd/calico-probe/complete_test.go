package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestBashAlone uses a real bash without the package bash-completion to complete what bash splits into several words. A
// function in place of the program prints its arguments.
func TestBashAlone(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	_, script, _ := call(t, "completion", "bash")
	file := filepath.Join(t.TempDir(), "completion")
	must.Do(t, os.WriteFile(file, []byte(script), 0o600))
	for line, c := range map[string]struct{ words, given, want string }{
		"calico-probe run --node ":              {`calico-probe run --node ""`, "__complete run --node ", "worker-3"},
		"calico-probe diff night.json:worker":   {"calico-probe diff night.json : worker", "__complete diff night.json:worker", "worker-3"},
		"calico-probe run --profile=q":          {"calico-probe run --profile = q", "__complete run --profile=q", "quick"},
		"calico-probe run --checks bgp,felix-l": {"calico-probe run --checks bgp,felix-l", "__complete run --checks bgp,felix-l", "bgp,felix-live"},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-c", `. "$1"
			calico-probe() { printf '%s\n' "$*" >&2; printf '%s\n:4\n' "$OFFERED"; }
			COMP_LINE=$2 COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
			eval "COMP_WORDS=($3)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			out=$(eval "__calico-probe_init_completion -n =: ; words=(\"\${words[@]:0:\$cword+1}\"); calico-probe __complete \"\${words[@]:1}\"" 2>&1 >/dev/null); printf 'given %s\n' "$out"
			__start_calico-probe; printf 'reply %s\n' "${COMPREPLY[@]}"`, "bash", file, line, c.words)
		offered := c.want
		if strings.Contains(line, ":") {
			offered = "night.json:" + c.want
		}
		cmd.Env = append(os.Environ(), "OFFERED="+offered)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "given "+c.given+"\n") ||
			!strings.Contains(strings.ReplaceAll(string(out), `\`, ""), "reply "+c.want) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestCompletesTheCluster completes contexts, namespaces, nodes and the nodes of a saved run, and does not wait for an
// API that does not answer.
func TestCompletesTheCluster(t *testing.T) {
	t.Parallel()
	api := nodesAPI(t, []string{"node-a"}, []string{"node-b"}) // every list has these two
	mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = mute.Close() }()
	saved := saveRun(t, "node-b", true, probe.Result{Check: "node-swap", Status: probe.OK, Saw: "no swap"})
	for typed, want := range map[string]string{
		"run --kubeconfig " + api + " --context ": "x", "serve --kubeconfig " + api + " --context ": "x",
		"run --kubeconfig " + api + " -n ": "node-b", "clean --kubeconfig " + api + " --namespace ": "node-b",
		"preflight --kubeconfig " + api + " --node ": "node-a",
		"diff " + saved + ":":                        saved + ":node-b",
		"diff " + saved + " " + saved + ":n":         saved + ":node-b",
		"run --kubeconfig " + kubeconfigTo(t, "http://"+mute.Addr().String()) + " --node ": ":4",
	} {
		_, out, _ := call(t, append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		if !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("%s: no %q in %q", typed, want, out)
		}
	}
}
