package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

const twoClusters = `apiVersion: v1
kind: Config
current-context: near
clusters:
- {name: near, cluster: {server: "https://near:6443"}}
- {name: far, cluster: {server: "https://far:6443", certificate-authority: ca.pem, proxy-url: "http://proxy:3128"}}
users:
- {name: me, user: {token: hush}}
- {name: you, user: {token: other}}
contexts:
- {name: near, context: {cluster: near, user: you}}
- {name: far, context: {cluster: far, user: me}}
`

// TestRunbooksKubeconfig requires a runbook's commands to use the cluster and the user of the flags, through a file
// that only its owner can read and that is removed after each command, even if a signal ends the program. Without a
// cluster there is no file.
func TestRunbooksKubeconfig(t *testing.T) { // not parallel: it sets the environment
	dir := t.TempDir()
	own := filepath.Join(dir, "own", "calico-probe")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(own))
	file := filepath.Join(dir, "config")
	for name, text := range map[string]string{file: twoClusters, filepath.Join(dir, "ca.pem"): ""} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig, *flags.Context, *flags.Impersonate = file, "far", "ann"
	o := &runbookOptions{runFlags: &runFlags{app: &app{flags: flags, interrupts: &ui.Interrupts{}}}}
	lead, not := o.kubeconfig()
	if not != "" {
		t.Fatal(not)
	}
	if _, err := os.Stat(own); err == nil {
		t.Error("it is written before a command is started")
	}
	name, remove, err := lead()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{name, own} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v, %v", info, err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(text), "near") || strings.Contains(string(text), "other") {
		t.Errorf("%v, it has more than is needed:\n%s", err, text)
	}
	want, err := o.restConfig()
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", name)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != want.Host || got.BearerToken != "hush" || got.CAFile != filepath.Join(dir, "ca.pem") ||
		got.Impersonate.UserName != "ann" || got.Proxy == nil {
		t.Errorf("it leads to %v, and was to lead to %v", got, want)
	}

	// A later client removes the file that a killed client left.
	must.Do(t, os.Chtimes(name, time.Time{}, time.Now().Add(-25*time.Hour)))
	there := func() []string { found, _ := filepath.Glob(filepath.Join(own, "*")); return found }
	next, removeNext, err := lead()
	if err != nil || !slices.Equal(there(), []string{next}) {
		t.Errorf("%v, there are %q", err, there())
	}
	if o.interrupts.End(); len(there()) != 0 {
		t.Errorf("a signal leaves %q", there())
	}
	removeNext()
	if _, last, err := lead(); err != nil || len(there()) != 1 {
		t.Errorf("%v, there are %q", err, there())
	} else if last(); len(there()) != 0 {
		t.Errorf("a command that has ended leaves %q", there())
	}
	remove()
	o.Via = injector.MethodLocal
	if lead, not := o.kubeconfig(); lead != nil || !strings.Contains(not, "--via local") {
		t.Errorf("by --via local: %q", not)
	}
}

// TestSetAgain requires new answers and actions to be added to those of the journal, and any other flag to have its new
// value.
func TestSetAgain(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{}
	answers := cmd.Flags().StringArray("answer", nil, "")
	actions := cmd.Flags().StringSlice("allow-actions", nil, "")
	baselines := cmd.Flags().String("baselines", "2", "")
	must.Do(t, cmd.ParseFlags([]string{"--answer", "b=2", "--answer", "c=3", "--allow-actions=x",
		"--baselines=0"}))
	for name, values := range map[string][]string{"answer": {"a=1", "b=1"}, "allow-actions": {"x", "y"},
		"baselines": {"5"}} {
		must.Do(t, setAgain(cmd, name, values))
	}
	if !slices.Equal(*answers, []string{"b=2", "c=3", "a=1"}) ||
		!slices.Equal(*actions, []string{"x", "y"}) || *baselines != "0" {
		t.Errorf("%q, %q, %q", *answers, *actions, *baselines)
	}
}

// TestJournalHasNoSecret requires that no secret flag is in the journal, the record or a message. The resume line names
// what to pass again, and a journal resumes only in its own cluster.
func TestJournalHasNoSecret(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	book, journal, record := filepath.Join(dir, "ours.yaml"), filepath.Join(dir,
		"journal"), filepath.Join(dir, "record.json")
	text := "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: ours}\nspec:\n  title: ours\n" +
		"  steps: [{run: {via: api}}, {name: q, ask: {question: 'is it?', options: [later, now], default: later, later: later}}]\n"
	must.Do(t, os.WriteFile(book, []byte(text), 0o600))
	// The port is closed: the runbook is incomplete, and its journal can be resumed.
	secret := []string{"--server", "https://joe:hush@127.0.0.1:1/k8s/clusters/hush", "--proxy-url", "http://joe:hush@127.0.0.1:1", "--token", "hush", "--run-timeout", "2s", "--cache-dir", dir}
	_, out, said := typedBook(t, append([]string{"run", book, "--node", "a", "--journal", journal, "-o",
		"json=" + record}, secret...)...)
	if !strings.Contains(said, "--resume "+journal+" --token TOKEN --server URL --proxy-url URL\n") {
		t.Errorf("it does not say what to give again: %s", said)
	}
	all := map[string]string{"stdout": out, "stderr": said}
	for _, name := range []string{journal, record} {
		b := must.Get(os.ReadFile(name))(t)
		all[name] = string(b)
	}
	for name, text := range all {
		if strings.Contains(text, "hush") || strings.Contains(text, "joe") {
			t.Errorf("%s has what is secret: %s", name, text)
		}
	}
	if !strings.Contains(all[journal], `"server":"https://127.0.0.1:1/sha256-`) || !strings.Contains(all[journal], `"run-timeout"`) {
		t.Errorf("the journal lacks the API or a flag: %s", all[journal])
	}
	secret[1] = strings.Replace(secret[1], "clusters/hush", "clusters/hash", 1)
	if exit, _, said := typedBook(t, append([]string{"run", "--resume", journal}, secret...)...); exit != 2 ||
		!strings.Contains(said, "choose the cluster") || strings.Contains(said, "hush") || strings.Contains(said, "hash") {
		t.Errorf("in another cluster: exit code %d, %s", exit, said)
	}
	secret[1] = strings.Replace(secret[1], "clusters/hash", "clusters/hush", 1)
	if exit, _, said := typedBook(t, append([]string{"run", "--resume", journal}, secret...)...); exit == 2 ||
		strings.Contains(said, "hush") {
		t.Errorf("gone on: exit code %d, %s", exit, said)
	}
}

// TestIsKept requires an address to be kept only if it has no other parts.
func TestIsKept(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"https://10.0.0.1:6443": true, "https://10.0.0.1:6443/": true, "10.0.0.1:6443": true, "[fd00::1]:6443": true,
		"socks5://proxy:1080": true,
		"https://joe:hush@a":  false, "joe:hush@a:3128": false, "https://a/hush": false, "https://a?t=hush": false,
		"https://a#hush": false, "//joe@a": false,
	} {
		if isKept("proxy-url", value) != want || isKept("server", value) != want {
			t.Errorf("%s is kept: %v", value, !want)
		}
	}
	if isKept("token", "x") || isKept("password", "x") || !isKept("context", "a/b@c") {
		t.Error("what is kept of other flags is wrong")
	}
}

// TestStopwatch requires a person's time not to count.
func TestStopwatch(t *testing.T) {
	t.Parallel()
	over := make(chan bool, 1)
	s := stopwatch{left: 50 * time.Millisecond, over: func() { over <- true }}
	s.run()
	s.stop()
	time.Sleep(100 * time.Millisecond)
	if len(over) != 0 {
		t.Error("it went on while it was stopped")
	}
	s.run()
	<-over
}
