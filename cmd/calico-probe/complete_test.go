package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBashAlone has a real bash without the package bash-completion complete what bash itself takes
// for several words; what would be run is a function that prints what it was given.
func TestBashAlone(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	_, script, _ := call(t, "completion", "bash")
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if err != nil || !strings.Contains(string(out), "given "+c.given+"\n") || !strings.Contains(strings.ReplaceAll(string(out), `\`, ""), "reply "+c.want) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}
