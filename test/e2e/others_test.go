//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// made returns a third-party program that 'make others' builds. It skips the test if the program is missing.
func made(t testing.TB, name string) string {
	t.Helper()
	path := file(".cache/others/" + name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: 'make others' builds it", path)
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestK9s starts the plugins of deploy/k9s in k9s itself, by their keys.
func TestK9s(t *testing.T) {
	k9s, home := made(t, "bin/k9s"), t.TempDir()
	plugins, err := os.ReadFile(file("deploy/k9s/plugins.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "plugins.yaml"), plugins, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScreen(t, "K9S_CONFIG_DIR="+home, "TERM=screen-256color")
	s.must("resize-window", "-x", "200", "-y", "50")
	s.anew("PATH=" + file("bin") + ":$PATH " + k9s + " --splashless --logoless --command nodes")
	s.wants("Why is it broken?")
	s.wants("node-a")
	s.press("Q")
	s.wants("node-a of sandbox")
	s.finds(`answers to \d+ checks`)
	s.press("q")
	s.wants("Why is it broken?")
	s.press("W")
	s.wants("node-a>")
	s.enter("exit")
	s.wants("Why is it broken?")
	s.press("E")
	s.finds(`(?i)mesh|paths`)
	s.press("q")
	s.wants("Why is it broken?")
	s.enter(":pods default")
	s.wants("Why unreachable?")
	s.wants("workload-a")
	s.enter("/workload-a")
	s.press("Q")
	s.finds(`pings(, and all)? came back|nothing is lost|no packets lost|all came back`)
	s.press("q")
}

// TestInspector queries the server of 'calico-probe mcp' with the MCP inspector, on stdin and over HTTP.
func TestInspector(t *testing.T) {
	inspector := made(t, "node_modules/.bin/mcp-inspector")
	node := made(t, "node_modules/node-linux-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1)+"/bin/node")
	asked := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, inspector, append([]string{"--cli"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+":"+os.Getenv("PATH"))
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, errs.String())
		}
		return string(out)
	}
	stdio := []string{"-e", "KUBECONFIG=" + os.Getenv("KUBECONFIG"), file("bin/calico-probe"), "mcp"}
	var list struct {
		Tools []struct {
			Name         string
			OutputSchema json.RawMessage
			Annotations  struct{ ReadOnlyHint bool }
		}
	}
	if err := json.Unmarshal([]byte(asked(append(stdio, "--method", "tools/list")...)), &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s is not read-only, without --allow-probes", tool.Name)
		}
	}
	if len(list.Tools) < 5 {
		t.Errorf("%d tools", len(list.Tools))
	}
	got := asked(append(stdio, "--method", "tools/call", "--tool-name", "run", "--tool-arg", "node=node-a", "--tool-arg",
		"via=api")...)
	if !strings.Contains(got, "verdict: ") {
		t.Errorf("run answers:\n%s", got)
	}
	url, token := servesAgents(t)
	got = asked(url, "--transport", "http", "--header", "Authorization: Bearer "+token, "--method", "tools/call",
		"--tool-name", "triage")
	if !strings.Contains(got, "of 2 nodes") || !strings.Contains(got, "verdict: ") { // healthy ones are not named
		t.Errorf("triage over HTTP answers:\n%s", got)
	}
}

// servesAgents is a server over HTTP, and the token it wants.
func servesAgents(t testing.TB) (url, token string) {
	t.Helper()
	token = "a-token-of-the-test-0123456789abcdef"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := client(t, "mcp", "--listen", address, "--token-file", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ends is asked elsewhere
	})
	eventually(t, time.Minute, func() string {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
	return "http://" + address + "/mcp", token
}

// TestNodeProblemDetector runs the real node-problem-detector on a node, with the plugin in deploy/.
func TestNodeProblemDetector(t *testing.T) {
	npd := made(t, "bin/nodeproblemdetector")
	const dir = "/opt/calico-probe"
	for to, from := range map[string]string{"npd": npd, "probe": file(".cache/build/linux-" + runtime.GOARCH + "/probe"),
		"plugin.json": file("deploy/node-problem-detector.json")} {
		putOnNode(t, from, dir+"/"+to)
	}
	t.Cleanup(func() { mustSandbox(t, "exec", "node-a", "--", "rm", "-r", dir) })
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, file("bin/sandbox"), "exec", "--name", clusterName, "node-a", "--", dir+"/npd",
		"--config.custom-plugin-monitor="+dir+"/plugin.json", "--hostname-override=node-a", "--port=0", "--prometheus-port=0",
		"--apiserver-override=https://10.88.0.1:6443?inClusterConfig=false&auth=/etc/kubernetes/kubelet.kubeconfig")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mustSandbox(t, "exec", "node-a", "--", "pkill", "-f", dir+"/npd")
		cancel()
		_ = cmd.Wait() // it is killed
	})
	condition := func(want corev1.ConditionStatus, message string) {
		t.Helper()
		eventually(t, 3*time.Minute, func() string {
			node, err := kube(t).CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			for _, c := range node.Status.Conditions {
				if c.Type == "CalicoProblem" && c.Status == want && strings.Contains(c.Message, message) {
					return ""
				}
			}
			return fmt.Sprintf("no CalicoProblem %s with %q: %v\n%s", want, message, node.Status.Conditions, said.String())
		})
	}
	condition(corev1.ConditionFalse, "finds nothing broken")
	mustSandbox(t, "felix", "node-a", "503")
	t.Cleanup(func() { mustSandbox(t, "felix", "node-a", "ok") })
	condition(corev1.ConditionTrue, "felix-")
}

// putOnNode copies a program or file onto node-a.
func putOnNode(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file("bin/sandbox"), "exec", "--name", clusterName, "node-a", "--", "sh", "-ec",
		`mkdir -p "$(dirname "$0")"; cat >"$0"; chmod 755 "$0"`, to)
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
