package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/bundle"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestBundle bundles a run by the API, and analyzes the run in the bundle.
func TestBundle(t *testing.T) {
	kubeconfig, folder := fleetAPI(t, "pods"), t.TempDir()
	t.Chdir(folder)
	common := []string{"bundle", "--node", "worker-b", "--via", "api", "--kubeconfig", kubeconfig}
	exit, out, errs := call(t, append(common, "--dry-run")...)
	listed := strings.Contains(out, "cluster-resources/nodes.json") && strings.Contains(out, "  node worker-b: nothing redacted")
	if exit != 0 || !listed {
		t.Fatalf("exit %d, %s%s", exit, out, errs)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Fatalf("--dry-run wrote %v (%v)", left, err)
	}
	exit, out, errs = call(t, common...)
	said := strings.Contains(out, "worker-b: fault, ") && strings.Contains(out, "pods: no right to do this")
	if exit != 0 || errs != "" || !said {
		t.Fatalf("exit %d, %s%s", exit, out, errs)
	}
	name, _, _ := strings.Cut(out, ":")
	files := unpack(t, name)
	saved := filepath.Join(t.TempDir(), "run.ndjson")
	must.Do(t, os.WriteFile(saved, []byte(files["run.ndjson"]), 0o600))
	exit, again, errs := call(t, "analyze", saved, "-o", "json")
	if exit != 3 || errs != "" || again != files["report.json"] {
		t.Errorf("exit %d: %s\n%s\nand in the bundle\n%s", exit, errs, again, files["report.json"])
	}
	exit, _, errs = call(t, append(common, "--file", name)...)
	if exit != 2 || !strings.Contains(errs, "already exists: name another file") {
		t.Errorf("exit %d, %s", exit, errs)
	}
	// Bundles of saved runs: with and without a cluster, and of another cluster.
	exit, out, errs = call(t, "bundle", "--offline", saved, "--file", "offline.tar.gz")
	inside := unpack(t, "offline.tar.gz")["run.ndjson"]
	if exit != 0 || errs != "" || !strings.Contains(out, "objects were not requested from the API") || inside == "" {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
	exit, out, errs = call(t, "bundle", saved, "--kubeconfig", kubeconfig, "--dry-run")
	if exit != 0 || !strings.Contains(out, "node worker-b: ") {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
	exit, _, errs = call(t, "bundle", saved, "--kubeconfig", fleetAPI(t, ""), "--file", "other.tar.gz")
	if exit != 2 || !strings.Contains(errs, "a saved run is from cluster") {
		t.Errorf("exit %d, %s", exit, errs)
	}
	exit, out, errs = call(t, "bundle", "--all-nodes", "--via", "api", "--kubeconfig", kubeconfig, "--file",
		"fleet.tar.gz")
	if exit != 0 || errs != "" || !strings.Contains(out, "several nodes: fault, ") {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
	nodes := unpack(t, "fleet.tar.gz")["cluster-resources/nodes.json"]
	if !strings.Contains(nodes, "worker-a") || !strings.Contains(nodes, "worker-b") {
		t.Errorf("nodes of the fleet: %s", nodes)
	}
	left, err := filepath.Glob(filepath.Join(folder, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("half-written: %v (%v)", left, err)
	}
}

// TestBundleOfFleet requires the start of a run of several nodes to be redacted too.
func TestBundleOfFleet(t *testing.T) {
	folder := t.TempDir()
	saved, archive := filepath.Join(folder, "fleet.ndjson"), filepath.Join(folder, "out.tar.gz")
	exit, _, errs := call(t, "run", "--all-nodes", "--via", "api", "--kubeconfig", fleetAPI(t, ""), "-o", "ndjson="+saved)
	b, err := os.ReadFile(saved)
	if exit != 3 || err != nil {
		t.Fatalf("exit %d, %s, %v", exit, errs, err)
	}
	text := strings.ReplaceAll(string(b), "http://127.0.0.1:", "http://ann:p4ssw0rd@127.0.0.1:")
	if text == string(b) {
		t.Fatal("the run does not say where its API server is")
	}
	must.Do(t, os.WriteFile(saved, []byte(text), 0o600))
	if exit, out, errs := call(t, "bundle", "--offline", saved, "--file", archive); exit != 0 {
		t.Fatalf("exit %d, %s%s", exit, out, errs)
	}
	files := unpack(t, archive)
	for name, text := range files {
		if strings.Contains(text, "p4ssw0rd") {
			t.Errorf("%s has a password", name)
		}
	}
	if !strings.Contains(files["redactions.txt"], "how the run began: token") {
		t.Errorf("%s", files["redactions.txt"])
	}
}

// unpack returns the files of an archive, without its folder.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	packed := must.Get(gzip.NewReader(f))(t)
	out := map[string]string{}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if err != nil {
			return out
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, file, _ := strings.Cut(head.Name, "/")
		out[file] = string(b)
	}
}

// TestBundleRefuses requires one line for wrong usage, before any request or write.
func TestBundleRefuses(t *testing.T) {
	saved := filepath.Join("..", "..", "docs", "example.ndjson")
	for args, says := range map[string]string{
		"bundle": "no node given", "bundle --offline": "--offline takes saved run files",
		"bundle --node a " + saved:                   "leave out --node",
		"bundle --node a --file -":                   "--file takes a file name",
		"bundle --offline nowhere.ndjson":            "nowhere.ndjson",
		"bundle --offline bundle.go":                 "is not a file of",
		"bundle --node a --file /nowhere/x.tar.gz":   "cannot be written to /nowhere: no such file",
		"bundle --node a --via exce":                 "did you mean exec?",
		"bundle --node a --file root.go":             "already exists",
		"bundle --node a --profile full --dry-run":   "quick, standard, deep",
		"bundle --node a --kubeconfig /nowhere/file": "/nowhere/file",
	} {
		exit, out, errs := call(t, strings.Fields(args)...)
		wrong := exit != 2 && !strings.Contains(args, "kubeconfig")
		if wrong || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %s%s", args, exit, out, errs)
		}
	}
	if left, err := filepath.Glob(".calico-probe-bundle*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestDocsBundle compares the rules in docs/bundle.md with the program's.
func TestDocsBundle(t *testing.T) {
	const file, begins, ends = "../../docs/bundle.md", "<!-- rules -->\n", "<!-- /rules -->"
	text := read(t, file)
	before, rest, found := strings.Cut(text, begins)
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	want := before + begins + bundle.RulesTable() + ends + after
	if *update {
		must.Do(t, os.WriteFile(file, []byte(want), 0o644))
	} else if text != want {
		t.Error("docs/bundle.md is not what the program says: 'make docs' writes it")
	}
}
