package main

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestImportsRunForward checks the imports of each folder (docs/architecture.md). Only injector writes to the
// Kubernetes API, so a review of privileges reads one package.
func TestImportsRunForward(t *testing.T) {
	const own = "github.com/calico-probe/calico-probe/"
	const in = own + "internal/"
	// Package probe depends only on the standard library and one small package.
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", own+"probe").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if dep != own+"probe" && dep != in+"suggest" && !strings.HasPrefix(dep, "github.com/cyphar/filepath-securejoin") && !strings.HasPrefix(dep, "golang.org/x/sys") {
			t.Errorf("probe depends on %s", dep)
		}
	}
	// Packages that every package may import. They import only probe or Kubernetes.
	leaves := []string{own + "probe/facts", own + "probe/lazy", in + "suggest", in + "filelock", in + "serverclock",
		in + "page"}
	kubernetes := []string{"k8s.io/", "sigs.k8s.io/"}
	for pkg, forbidden := range map[string][]string{
		// Packages that run on the node.
		"internal/subject/suite/ask": {in + "cluster", own + "injector", in + "report", in + "diagnose",
			in + "subject/evidence", "k8s.io/client-go",
			"k8s.io/apimachinery"},
		"internal/subject/suite": {in + "cluster", own + "injector", in + "report", in + "diagnose", "k8s.io/",
			own + "probe/reach", own + "probe/criconn"},
		"probe/tools/do": {in + "cluster", own + "injector", in + "report", "k8s.io/client-go", "k8s.io/apimachinery"},
		// The arguments of tools: the client links them, but not the functions.
		"probe/tools": {in + "cluster", own + "injector", in + "report", own + "probe/tools/do", own + "probe/icmp",
			own + "probe/reach", own + "probe/node", "k8s.io/", "google.golang.org/grpc", "github.com/miekg/dns",
			"github.com/cilium/ebpf", "github.com/containerd/"},
		// The client links no package that runs on a node.
		"cmd/calico-probe": {own + "probe/tools/do", own + "probe/reach", own + "probe/criconn", own + "probe/icmp",
			"github.com/miekg/dns", "github.com/cilium/ebpf", "github.com/containerd/",
			"k8s.io/cri-api"},
		// The API: one package reads, one writes.
		"internal/cluster": {own + "injector", in + "report", in + "subject", in + "apicheck", own + "probe/",
			"k8s.io/kubectl"},
		"internal/subject/suite/api": {own + "injector", in + "report", in + "diagnose", in + "examine",
			in + "subject/evidence", own + "probe/", "k8s.io/kubectl"},
		"internal/netpolicy": {in + "cluster", own + "injector", in + "report", own + "probe/", "k8s.io/client-go",
			"k8s.io/kubectl"},
		"injector": {in + "cluster", in + "report", own + "probe/", "k8s.io/kubectl"},
		// Output formats.
		"internal/report":   {in + "cluster", own + "injector", in + "diagnose", own + "probe/", "k8s.io/"},
		"internal/diagnose": {in + "subject", in + "cluster", own + "injector", in + "report", "k8s.io/"},
		// The client: one examination, a session of several, and the command line above both.
		"internal/examine": {in + "session", in + "preflight", in + "output", in + "runbook", in + "alerts",
			"github.com/spf13/cobra",
			"k8s.io/kubectl", "k8s.io/cli-runtime"},
		"internal/fleet": {in + "session", in + "preflight", in + "output", in + "runbook", in + "alerts",
			"github.com/spf13/cobra", "k8s.io/kubectl", "k8s.io/cli-runtime"},
		"internal/mesh": {in + "cluster", own + "injector", in + "examine", in + "fleet", in + "report", own + "probe/",
			"k8s.io/"},
		"internal/live": {in + "cluster", own + "injector", in + "examine", in + "fleet", in + "report",
			own + "probe/", "k8s.io/",
			"github.com/spf13/"},
		"internal/preflight": {in + "session", in + "output", in + "runbook", in + "alerts", "github.com/spf13/cobra",
			"k8s.io/kubectl", "k8s.io/cli-runtime"},
		// Its terminal is kubectl's.
		"internal/session": {in + "preflight", in + "output", in + "runbook", in + "alerts", "github.com/spf13/cobra",
			"k8s.io/kubectl/pkg/cmd", "k8s.io/cli-runtime/pkg/genericclioptions"},
		"internal/output": {in + "cluster", in + "diagnose", in + "examine", own + "injector", own + "probe/", "k8s.io/"},
		"internal/ui": append(kubernetes, in+"cluster", in+"diagnose", in+"examine", own+"injector", in+"output",
			in+"report", own+"probe/",
			"github.com/spf13/"),
		"internal/prompt": append(kubernetes, own),
		// Packages without own dependencies.
		"probe/facts":          {own + "probe/", in + "cluster", own + "injector", in + "report", "k8s.io/"},
		"probe/logs":           {in, own + "injector", own + "probe/reach", "k8s.io/"},
		"internal/suggest":     {own, "k8s.io/"},
		"internal/filelock":    {own, "k8s.io/"},
		"internal/serverclock": {own, "k8s.io/"},
		"internal/page": {in + "cluster", in + "diagnose", in + "examine", in + "fleet", own + "injector", in + "mesh",
			in + "report", own + "probe/", "k8s.io/"},
		"internal/gate": append(kubernetes, in+"cluster", own+"injector", in+"alerts", in+"report", own+"probe/"),
		// Beside it.
		"internal/install": {own, "k8s.io/client-go", "k8s.io/kubectl"},
		"internal/bundle": {in + "session", in + "preflight", in + "output", in + "runbook", in + "alerts",
			"github.com/spf13/cobra", "k8s.io/kubectl", "k8s.io/cli-runtime"},
		"internal/conditions": {in + "cluster", own + "injector", in + "examine", in + "fleet", "k8s.io/"},
		"internal/agents": {in + "cluster", own + "injector", in + "diagnose", in + "examine", in + "fleet", in + "session",
			in + "alerts", own + "probe/", "github.com/spf13/cobra", "k8s.io/"},
		"internal/alerts": {in + "cluster", own + "injector", in + "diagnose", in + "runbook", own + "probe/", "k8s.io/"},
		"internal/runbook": {in + "cluster", own + "injector", own + "probe/", in + "prompt", in + "examine",
			in + "session", in + "preflight", "k8s.io/"},
	} {
		out, err := exec.Command("go", "list", "-deps", own+pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if dep == own+pkg || slices.Contains(leaves, dep) {
				continue
			}
			// -o jsonpath is kubectl's; its package has only a template parser of Kubernetes.
			if slices.Contains([]string{"internal/report", "internal/output", "internal/runbook", "internal/alerts", "internal/agents", "internal/conditions"}, pkg) && (dep == "k8s.io/client-go/util/jsonpath" || dep == "k8s.io/client-go/third_party/forked/golang/template") {
				continue
			}
			// Packages that run on a node may import clients of container runtimes, DNS and the kernel.
			asks := strings.HasPrefix(dep, in+"subject/") && path.Base(dep) == "ask"
			stranger := func(f string) bool { return strings.HasPrefix(dep, f) }
			if asks && pkg == "cmd/calico-probe" || slices.ContainsFunc(forbidden, stranger) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}
