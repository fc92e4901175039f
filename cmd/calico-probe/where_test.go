package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/probe/must"
)

const threeContexts = `{"apiVersion": "v1", "kind": "Config", "current-context": "prod", "clusters": [
  {"name": "a", "cluster": {"server": "https://10.0.0.1:6443"}},
  {"name": "b", "cluster": {"server": "https://joe:hush@rancher.example/k8s/clusters/hush"}},
  {"name": "c", "cluster": {"server": "[fd00::1]:6443"}}],
  "contexts": [{"name": "prod", "context": {"cluster": "a"}}, {"name": "lab", "context": {"cluster": "b"}}, {"name": "six", "context": {"cluster": "c"}}]}`

// TestWhere requires the cluster as the flags select it, without secret parts of its address.
func TestWhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	must.Do(t, os.WriteFile(file, []byte(threeContexts), 0o600))
	for name, c := range map[string]struct{ context, cluster, server, via, want string }{
		"the current one": {want: "prod (https://10.0.0.1:6443)"},
		"another":         {context: "lab", want: "lab (https://rancher.example)"},
		"without scheme":  {context: "six", want: "six (http://[fd00::1]:6443)"},
		"by its address":  {server: "http://localhost:8001", want: "http://localhost:8001"},
		"another cluster": {cluster: "b", want: "https://rancher.example"},
		"none":            {via: injector.MethodLocal},
	} {
		flags := genericclioptions.NewConfigFlags(true)
		*flags.KubeConfig, *flags.Context, *flags.ClusterName, *flags.APIServer = file, c.context, c.cluster, c.server
		client, err := (&app{flags: flags}).client()
		if err != nil {
			t.Fatal(err)
		}
		at, err := client.ClusterOf(examine.Options{Via: c.via})
		got := ""
		if at != nil {
			got = at.String()
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %q, want %q", name, err, got, c.want)
		}
	}
}

// TestWhereIsSaid requires the cluster and the time in every format of a saved run, and reads runs of an older version
// without them.
func TestWhereIsSaid(t *testing.T) {
	t.Parallel()
	const stream = `{"seq":0,"type":"run","start":{"v":1,"version":"0.1.0","run":"7f","time":"2026-11-21T21:23:57Z","checks":null,"cluster":{"context":"prod","server":"https://10.0.0.1:6443"}},"node":"node-a"}
{"seq":1,"type":"start","start":{"v":1,"version":"0.1.0","run":"7f","time":"2026-11-21T20:00:00Z","checks":null},"node":"node-a","way":"api"}
{"seq":2,"type":"result","result":{"check":"node-ready","status":"ok","saw":"Ready for 3m","elapsed_ns":0},"node":"node-a","way":"api"}
{"seq":3,"type":"end","end":{"results":1,"counts":null,"elapsed_ns":0},"node":"node-a","way":"api"}
{"seq":4,"type":"verdict","verdict":{"verdict":"healthy","exit":0,"counts":{"ok":1},"elapsed_ns":1},"node":"node-a"}
`
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	asNDJSON := write("a.ndjson", stream)
	_, text, _ := call(t, "analyze", asNDJSON, "-o", "json")
	asJSON := write("a.json", text)
	_, first, _ := strings.Cut(stream, "\n")
	old := write("old.ndjson", strings.NewReplacer(`"seq":1`, `"seq":0`, `"seq":2`, `"seq":1`, `"seq":3`, `"seq":2`,
		`"seq":4`, `"seq":3`).Replace(first))
	// A run that reached no node has only its start and its verdict.
	begun, rest, _ := strings.Cut(stream, "\n")
	_, verdict, _ := strings.Cut(rest, `{"seq":4,`)
	asked := write("none.ndjson", begun+"\n"+`{"seq":1,`+strings.Replace(verdict, `"healthy","exit":0`,
		`"incomplete","exit":5`, 1))
	if _, out, errs := call(t, "analyze", asked, "-o", "jsonpath={.run}"); out != "7f\n" && out != "7f" {
		t.Errorf("run %q of one that reached nobody: %s", out, errs)
	}
	const head = "node-a of prod (https://10.0.0.1:6443), 2026-11-21 21:23:57 UTC\n"
	for _, file := range []string{asNDJSON, asJSON} {
		for format, want := range map[string]string{
			"table": "; cluster prod; ", "wide": "cluster prod (https://10.0.0.1:6443), 2026-11-21 21:23:57 UTC",
			"markdown": " of `prod (https://10.0.0.1:6443)`, 2026-11-21T21:23:57Z",
			"ndjson":   `"cluster":{"context":"prod"`,
			"junit":    `<property name="server" value="https://10.0.0.1:6443">`, "yaml": "server: https://10.0.0.1:6443",
			"jsonpath={.cluster.context} {.time}": "prod 2026-11-21T21:23:57Z",
		} {
			exit, out, errs := call(t, "analyze", file, "-o", format)
			if exit != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("%s as %s: exit %d, %s %s", file, format, exit, errs, out)
			}
		}
		if exit, out, _ := call(t, "diff", old, file); exit != 0 ||
			!strings.Contains(out, "A  healthy on node node-a (") ||
			!strings.Contains(out, "B  healthy on node "+strings.TrimSpace(head)+" (") {
			t.Errorf("diff: exit %d %s", exit, out)
		}
	}
	if exit, out, errs := call(t, "analyze", old); exit != 0 || !strings.HasPrefix(out, "healthy on ") {
		t.Errorf("an older run: exit %d, %s %s", exit, errs, out)
	}
}
