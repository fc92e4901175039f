package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImportsRunForward holds what each folder may know (docs/architecture.md). The writing
// half of the Kubernetes API is injector alone, so that a review of privileges reads one
// package.
func TestImportsRunForward(t *testing.T) {
	const own = "github.com/calico-probe/calico-probe/"
	// What everything shares stands on the standard library and one function that
	// it lacks.
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", own+"probe").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if dep != own+"probe" && dep != own+"suggest" && !strings.HasPrefix(dep, "github.com/cyphar/filepath-securejoin") && !strings.HasPrefix(dep, "golang.org/x/sys") {
			t.Errorf("probe depends on %s", dep)
		}
	}
	// What anybody may import: none of them imports more than probe, or Kubernetes.
	leaves := []string{own + "probe/facts", own + "suggest", own + "filelock", own + "serverclock", own + "page"}
	kubernetes := []string{"k8s.io/", "sigs.k8s.io/"}
	for pkg, forbidden := range map[string][]string{
		// What is on the node, and what asks there.
		"probe/checks": {own + "cluster", own + "injector", own + "report", "k8s.io/client-go", "k8s.io/apimachinery"},
		"probe/tools":  {own + "cluster", own + "injector", own + "report", "k8s.io/client-go", "k8s.io/apimachinery"},
		// The API: one package reads, one writes.
		"cluster":  {own + "injector", own + "report", own + "probe/", "k8s.io/kubectl"},
		"injector": {own + "cluster", own + "report", own + "probe/", "k8s.io/kubectl"},
		// What is made of answers.
		"report":   {own + "cluster", own + "injector", own + "diagnose", own + "probe/", "k8s.io/"},
		"diagnose": {own + "cluster", own + "injector", own + "report", "k8s.io/"},
		// The client: one examination, a session of several, and the command line above both.
		"examine": {own + "session", own + "preflight", own + "output", own + "runbook", own + "alerts",
			"github.com/spf13/cobra",
			"k8s.io/kubectl", "k8s.io/cli-runtime"},
		"fleet": {own + "session", own + "preflight", own + "output", own + "runbook", own + "alerts",
			"github.com/spf13/cobra", "k8s.io/kubectl", "k8s.io/cli-runtime"},
		"mesh": {own + "cluster", own + "injector", own + "examine", own + "fleet", own + "report", own + "probe/",
			"k8s.io/"},
		"live": {own + "cluster", own + "injector", own + "examine", own + "fleet", own + "report", own + "probe/", "k8s.io/",
			"github.com/spf13/"},
		"preflight": {own + "session", own + "output", own + "runbook", own + "alerts", "github.com/spf13/cobra",
			"k8s.io/kubectl", "k8s.io/cli-runtime"},
		"session": {own + "preflight", own + "output", own + "runbook", own + "alerts", "github.com/spf13/cobra",
			"k8s.io/kubectl", "k8s.io/cli-runtime"},
		"output": {own + "cluster", own + "diagnose", own + "examine", own + "injector", own + "probe/", "k8s.io/"},
		"ui": append(kubernetes, own+"cluster", own+"diagnose", own+"examine", own+"injector", own+"output",
			own+"report", own+"probe/",
			"github.com/spf13/"),
		"prompt": append(kubernetes, own),
		// Leaves.
		"probe/facts": {own + "probe/", own + "cluster", own + "injector", own + "report", "k8s.io/"},
		"suggest":     {own, "k8s.io/"},
		"filelock":    {own, "k8s.io/"},
		"serverclock": {own, "k8s.io/"},
		"page": {own + "cluster", own + "diagnose", own + "examine", own + "fleet", own + "injector", own + "mesh",
			own + "report", own + "probe/", "k8s.io/"},
		"gate": append(kubernetes, own+"cluster", own+"injector", own+"alerts", own+"report", own+"probe/"),
		// Beside it.
		"install": {own, "k8s.io/client-go", "k8s.io/kubectl"},
		"bundle": {own + "session", own + "preflight", own + "output", own + "runbook", own + "alerts",
			"github.com/spf13/cobra", "k8s.io/kubectl", "k8s.io/cli-runtime"},
		"conditions": {own + "cluster", own + "injector", own + "examine", own + "fleet", "k8s.io/"},
		"agents": {own + "cluster", own + "injector", own + "diagnose", own + "examine", own + "fleet", own + "session",
			own + "alerts", own + "probe/", "github.com/spf13/cobra", "k8s.io/"},
		"alerts": {own + "cluster", own + "injector", own + "diagnose", own + "runbook", own + "probe/", "k8s.io/"},
		"runbook": {own + "cluster", own + "injector", own + "probe/", own + "prompt", own + "examine",
			own + "session", own + "preflight", "k8s.io/"},
	} {
		out, err := exec.Command("go", "list", "-deps", own+pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if dep == own+pkg || slices.Contains(leaves, dep) {
				continue
			}
			// The checks ask a container runtime by its CRI socket; its messages know no API server.
			if pkg == "diagnose" && dep == "k8s.io/cri-api/pkg/apis/runtime/v1" {
				continue
			}
			// -o jsonpath is kubectl's; its package has no Kubernetes in it but a template parser.
			if slices.Contains([]string{"report", "output", "runbook", "alerts", "agents", "conditions"}, pkg) && (dep == "k8s.io/client-go/util/jsonpath" || dep == "k8s.io/client-go/third_party/forked/golang/template") {
				continue
			}
			if slices.ContainsFunc(forbidden, func(f string) bool { return strings.HasPrefix(dep, f) }) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}
