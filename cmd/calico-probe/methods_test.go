package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/report"
)

// TestAccessMethodsEverywhere requires each access method in injector/method.go to be wherever CONTRIBUTING ("Add an
// access method") has a step for it. TestAccessMethodsAreWhole, TestAccessMethodsRefuse, TestPreflightOfEachMethod and
// TestChart check the other steps.
func TestAccessMethodsEverywhere(t *testing.T) {
	t.Parallel()
	ways := read(t, "../../docs/access-methods.md")
	security := read(t, "../../docs/security.md")
	tests := testsOfMethods(t)
	for _, method := range injector.MethodNames() {
		missing := func(step string) { t.Errorf("access method %s: %s", method, step) }
		if !strings.Contains(ways, "| `"+method+"` |") {
			missing("docs/access-methods.md has no row that says what it creates and while what it works")
		}
		if !strings.Contains(security, "| `"+method+"` |") {
			missing("docs/security.md has no row that says what it can do")
		}
		if !tests[method] {
			missing("CONTRIBUTING.md has no row that names its tests in test/e2e/: that it goes onto a node, fails, and is killed")
		}
		if worksInPod(method) && !takesRights(method) {
			missing("internal/install/rights.go has no use of that name with the rights it takes, so it cannot be granted")
		}
		root := (&app{flags: genericclioptions.NewConfigFlags(true)}).command()
		for _, flag := range flagsOf(t, root, "run", method) {
			if !slices.Contains(flagsOf(t, root, "preflight", method), flag) {
				missing("preflight.go does not take the flag --" + flag + " of run.go")
			}
			for _, verb := range []string{"run --node a", "preflight --node a"} {
				exit, _, errs := call(t, append(strings.Fields(verb), "--"+flag, "\x1b;")...)
				if exit != report.ExitUsage || !strings.Contains(errs, "--"+flag) {
					missing("Options.Validate in internal/examine/options.go does not refuse --" + flag + " with an escape in it: " + errs)
				}
			}
		}
	}
	names := injector.FallbackNames()
	last := len(names) - 1
	says := "tries `" + strings.Join(names[:last], "`, `") + "` and `" + names[last] + "`"
	if !strings.Contains(strings.Join(strings.Fields(ways), " "), says) {
		t.Errorf("docs/access-methods.md does not say that auto %s", says)
	}
}

// takesRights reports whether a use has rights, of its own or as another use.
func takesRights(method string) bool {
	return slices.ContainsFunc(install.Uses(), func(u install.Use) bool {
		return u.Name == method && (len(u.Rights) > 0 || u.As != "")
	})
}

// flagsOf returns a verb's flags for one access method: they begin with its name.
func flagsOf(t *testing.T, root *cobra.Command, verb, method string) []string {
	t.Helper()
	cmd, _, err := root.Find([]string{verb})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == method || strings.HasPrefix(f.Name, method+"-") {
			out = append(out, f.Name)
		}
	})
	return out
}

// testsOfMethods returns the access methods with a complete row in CONTRIBUTING's table of tests. Each test in a row
// must exist.
func testsOfMethods(t *testing.T) map[string]bool {
	t.Helper()
	_, text, _ := strings.Cut(read(t, "../../CONTRIBUTING.md"), "\n## Add an access method\n")
	text, _, _ = strings.Cut(text, "\n## ")
	every, out := everyTest(t), map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^ *\\| `(\\w+)` \\|(.+)\\|(.+)\\|(.+)\\|$").FindAllStringSubmatch(text, -1) {
		whole := true
		for _, cell := range row[2:] {
			named := testName.FindAllStringSubmatch(cell, -1)
			whole = whole && (len(named) > 0 || strings.TrimSpace(cell) == "creates nothing")
			for _, n := range named {
				if !every[n[1]] {
					t.Errorf("CONTRIBUTING.md: access method %s: there is no test %s", row[1], n[1])
				}
			}
		}
		out[row[1]] = whole
	}
	return out
}
