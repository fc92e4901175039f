//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/install"
)

// plugged is a folder for the PATH, as a release's archive fills it.
func plugged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, target := range map[string]string{
		"kubectl-calico_probe":          file("bin/calico-probe"),
		"kubectl_complete-calico_probe": file("scripts/kubectl_complete-calico_probe"),
		"calico-probe":                  file("bin/calico-probe"),
		"kubectl":                       file(".cache/bin/kubectl"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOME", t.TempDir()) // what kubectl and shells keep there
	return dir
}

// ran is what a program on the PATH wrote to stdout and stderr.
func ran(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// TestPlugin requires that kubectl finds and runs the plugin, and completes nodes, checks and lists. The plugin's
// advice must use the name under which it was called.
func TestPlugin(t *testing.T) {
	dir := plugged(t)
	if out := ran(t, "kubectl", "plugin", "list"); !strings.Contains(out, dir+"/kubectl-calico_probe") ||
		strings.Contains(strings.ToLower(out), "warning") {
		t.Errorf("kubectl plugin list: %s", out)
	}
	if out := ran(t, "kubectl", "calico-probe", "run", "--node", "node-a", "--via", "api"); !strings.Contains(out,
		"healthy on ") {
		t.Error(out)
	}
	for _, c := range []struct {
		typed string
		want  []string
		not   string
	}{
		{"run --node |", []string{"node-a", "node-b"}, "bgp-session"},
		{"run --checks |", []string{"bgp-session", "felix-live", "bgp"}, "node-a"},
		{"run --checks bgp-session,fel", []string{"bgp-session,felix-live", "bgp-session,felix"}, "felix-live"},
		{"run --via e", []string{"ephemeral"}, "node-a"},
		{"preflight --via pod,|", []string{"pod,exec"}, "pod,pod"},
		{"explain |", []string{"bgp-session", "address-second-nic"}, "node-a"},
		{"prefl", []string{"preflight\tCheck which access methods to a node would work"}, "run"},
	} {
		words := strings.Fields(strings.ReplaceAll(c.typed, "|", "''"))
		for i := range words {
			words[i] = strings.Trim(words[i], "'")
		}
		lines := strings.Split(ran(t, append([]string{"kubectl", "__complete", "calico-probe"}, words...)...), "\n")
		for _, want := range c.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no %q in %q", c.typed, want, lines)
			}
		}
		if slices.Contains(lines, c.not) {
			t.Errorf("%s: %q is no answer: %q", c.typed, c.not, lines)
		}
	}
	help := ran(t, "kubectl", "calico-probe", "run", "--help")
	if !strings.Contains(help, "  kubectl calico-probe run worker-3\n") || strings.Contains(help, "  calico-probe run") {
		t.Error(help)
	}
	out, err := exec.CommandContext(t.Context(), "kubectl", "calico-probe", "run", "--node", "node-a", "--checks",
		"nothing").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "'kubectl calico-probe checks' lists checks") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCompletions loads the generated completions into real shells, except PowerShell, which is not available.
func TestCompletions(t *testing.T) {
	plugged(t)
	const bash = `. <(calico-probe completion bash) &&
			COMP_LINE='calico-probe run --checks bgp-session,felix-l' COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
			COMP_WORDS=(calico-probe run --checks bgp-session,felix-l) COMP_CWORD=3
			__start_calico-probe && printf '%s\n' "${COMPREPLY[@]}"`
	for name, script := range map[string]string{
		"bash":                 ". /usr/share/bash-completion/bash_completion && " + bash,
		"bash without package": bash,
		"fish":                 `calico-probe completion fish | source; complete -C 'calico-probe run --checks bgp-session,felix-l'`,
		"zsh": `zmodload zsh/zpty && zpty -b z zsh -f -i && zpty -w z 'PS1=; autoload -U compinit && compinit -u && . <(calico-probe completion zsh)' &&
			zpty -n -w z $'calico-probe run --checks bgp-session,felix-l\t' && zpty -r z seen '*felix-live*' && print -r -- ${seen##*$'\n'}`,
	} {
		t.Run(name, func(t *testing.T) {
			shell, _, _ := strings.Cut(name, " ")
			// bash quotes the comma
			if out := ran(t, shell, "-c", script); !strings.Contains(strings.ReplaceAll(out, `\`, ""),
				"bgp-session,felix-live") {
				t.Errorf("%q", out)
			}
		})
	}
	if out := ran(t, "calico-probe", "completion", "powershell"); !strings.Contains(out, "Register-ArgumentCompleter -CommandName 'calico-probe'") {
		t.Errorf("powershell: %.300s", out)
	}
}

// objectsOf returns the objects of manifests as YAML by kind, namespace and name, without the label for the generating
// tool.
func objectsOf(t *testing.T, manifests string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for doc := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if len(o.Object) == 0 {
			continue
		}
		labels := o.GetLabels()
		delete(labels, "app.kubernetes.io/managed-by")
		o.SetLabels(labels)
		b, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = string(b)
	}
	return out
}

// TestManifestsAgree requires that the Helm chart and the kustomize base grant the same rights as 'manifests', and that
// the API server accepts them.
func TestManifestsAgree(t *testing.T) {
	plugged(t)
	helm, chart := file(".cache/bin/helm"), file("deploy/helm/calico-probe")
	if out := ran(t, helm, "lint", "--strict", chart); !strings.Contains(out, "0 chart(s) failed") {
		t.Error(out)
	}
	same := func(name, got string, args ...string) {
		t.Helper()
		a := call(t, append([]string{"manifests"}, args...)...)
		have, want := objectsOf(t, got), objectsOf(t, a.stdout)
		for name, object := range want {
			if have[name] != object {
				t.Errorf("%s: it is\n%s\nwant\n%s", name, have[name], object)
			}
		}
		if len(have) != len(want) || len(want) < 5 {
			t.Errorf("%s has %d objects, %v prints %d: %s", name, len(have), args, len(want), a.stderr)
		}
	}
	same("kustomize", kubectl(t, "", "kustomize", file("deploy/kustomize/base")))
	same("kustomize for serve", kubectl(t, "", "kustomize", file("deploy/kustomize/serve")), "--serve")
	template := func(args ...string) string {
		return ran(t, append([]string{helm, "template", "x", chart, "--namespace", "default"}, args...)...)
	}
	same("helm", template())
	same("helm in a namespace that is there", template("--set", "namespace.create=false"), "--create-namespace=false")
	same("helm beside calico-node", template("--set", "namespace.name=kube-system"), "-n", "kube-system")
	same("helm in a namespace like a number", template("--set-string", "namespace.name=1234"), "-n", "1234")
	same("helm for conditions", template("--set-json", `methods=["conditions"]`, "--set-json",
		`subjects=[{"kind":"User","name":"jane"},{"kind":"ServiceAccount","name":"c","namespace":"ops"}]`),
		"--methods", "conditions", "--service-account", "ops:c", "--user", "jane")
	same("helm for conditions elsewhere", template("--set", "namespace.name=ops", "--set-json", `methods=["conditions"]`,
		"--set-json", `subjects=[{"kind":"ServiceAccount","name":"c","namespace":"ops"}]`),
		"-n", "ops", "--methods", "conditions", "--service-account", "ops:c")
	same("helm for serve", template("--set", "serve.enabled=true", "--set-json", "methods=[]"),
		"--methods", "api", "--serve")
	same("helm for serve beside an operator's Calico", template("--set", "serve.enabled=true,calicoNamespace=calico-system", "--set-json", "methods=[]"),
		"--methods", "api", "--serve", "--calico-namespace", "calico-system")
	same("helm for serve elsewhere", template("--set", "serve.enabled=true,namespace.name=ops", "--set-json", "methods=[]"),
		"--methods", "api", "--serve", "-n", "ops")
	same("helm for serve and people", template("--set", "serve.enabled=true", "--set-json", `methods=["api"],subjects=[{"kind":"Group","name":"readers"}]`),
		"--methods", "api", "--serve", "--group", "readers")
	same("helm for serve without admitted namespaces", template("--set", "serve.enabled=true", "--set-json", "methods=[]", "--set-json", "serve.admit=[]"),
		"--methods", "api", "--serve", "--admit", "")
	same("helm for some", template("--set", "methods={outside},namespace.name=elsewhere,calicoNamespace=calico-system", "--set-json", `subjects=[{"kind":"Group","name":"on-call"}]`),
		"--methods", "outside", "-n", "elsewhere", "--calico-namespace", "calico-system", "--group", "on-call")
	overlay := t.TempDir()
	base, err := filepath.Rel(overlay, file("deploy/kustomize/serve")) // kustomize takes no absolute one
	if err != nil {
		t.Fatal(err)
	}
	const bases = "calico-probe/deploy/kustomize/serve"
	text := shown(t, "docs/install.md", "overlay")
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(strings.Replace(text, bases, base, 1)),
		0o600); err != nil || !strings.Contains(text, bases) {
		t.Fatal(err, text)
	}
	made := kubectl(t, "", "kustomize", overlay)
	for _, want := range []string{"- --external-url=https://probe.example.com\n", "- --image=registry.example/probe:", "image: registry.example/calico-probe:"} {
		if !strings.Contains(made, want) {
			t.Errorf("no %s in %s", want, made)
		}
	}
	elsewhere := template("--set", "serve.enabled=true,serve.insecureHTTP=true,serve.externalURL=https://probe.example.com/x,serve.persistence.storageClass=fast")
	for _, want := range []string{"- --insecure-http\n", "- \"https://probe.example.com/x\"\n", "storageClassName: \"fast\"\n", "targetPort: http\n"} {
		if !strings.Contains(elsewhere, want) {
			t.Errorf("no %s in %s", want, elsewhere)
		}
	}
	other := template("--set", "serve.enabled=true,serve.clientCertificates=true,serve.tokenSecret=,serve.routes=x: y,serve.persistence.enabled=false",
		"--set-json", `serve.admit=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"observability"}}}]`)
	for _, want := range []string{"kubernetes.io/metadata.name: observability\n      ports:\n        - port: https", "--client-ca", "checksum/routes", "emptyDir: {}", "- \"https://calico-probe-serve.calico-probe.svc:8080\""} {
		if !strings.Contains(other, want) {
			t.Errorf("no %s in %s", want, other)
		}
	}
	for _, bad := range [][]string{{"--set", "methods={pods}"}, {"--set", "methodz={pod}"}, {"--namespace", install.Namespace}, {"--set", "serve.enabled=true,serve.tokenSecret="}, {"--set", "serve.enabled=true,serve.tlsSecret="},
		{"--set", "serve.enabled=true,serve.insecureHTTP=true,serve.clientCertificates=true"}, {"--set", "serve.externalURL=probe.example.com"},
		{"--set", "namespace.name=A_b"}, {"--set-json", `subjects=[{"kind":"User","name":"jane","namespace":"ops"}]`}, {"--set-json", `subjects=[{"kind":"ServiceAccount","name":"x"}]`}} {
		if out, err := exec.CommandContext(t.Context(), helm, append([]string{"template", "x", chart}, bad...)...).
			CombinedOutput(); err == nil {
			t.Errorf("%v is taken: %s", bad, out)
		}
	}
	out := ran(t, helm, "install", "calico-probe", chart, "--namespace", "default", "--set", "namespace.name=e2e-helm,serve.enabled=true")
	if !strings.Contains(out, "calico-probe preflight -n e2e-helm") || !strings.Contains(out, "kubectl -n e2e-helm create secret generic calico-probe-serve --from") {
		t.Errorf("helm install: %s", out)
	}
	ran(t, helm, "uninstall", "calico-probe", "--namespace", "default")
}
