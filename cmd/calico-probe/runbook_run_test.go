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

// TestRunbooksKubeconfig wants a runbook's commands led to the cluster that was chosen by
// flags, as whoever was chosen, by a file that only its owner can read and that is gone after
// each, also where a signal ends the program; and to none where none was chosen.
func TestRunbooksKubeconfig(t *testing.T) { // not parallel: it sets the environment
	dir := t.TempDir()
	own := filepath.Join(dir, "own", "calico-probe")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(own))
	file := filepath.Join(dir, "config")
	for name, text := range map[string]string{file: twoClusters, filepath.Join(dir, "ca.pem"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig, *flags.Context, *flags.Impersonate = file, "far", "ann"
	o := &runbookOptions{runOptions: &runOptions{app: &app{flags: flags, interrupts: &interrupts{}}}}
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
	if got.Host != want.Host || got.BearerToken != "hush" || got.CAFile != filepath.Join(dir, "ca.pem") || got.Impersonate.UserName != "ann" || got.Proxy == nil {
		t.Errorf("it leads to %v, and was to lead to %v", got, want)
	}

	// What a killed client left is removed by a later one; this is what is there then.
	if err := os.Chtimes(name, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	there := func() []string { found, _ := filepath.Glob(filepath.Join(own, "*")); return found }
	next, removeNext, err := lead()
	if err != nil || !slices.Equal(there(), []string{next}) {
		t.Errorf("%v, there are %q", err, there())
	}
	if o.interrupts.end(); len(there()) != 0 {
		t.Errorf("a signal leaves %q", there())
	}
	removeNext()
	if _, last, err := lead(); err != nil || len(there()) != 1 {
		t.Errorf("%v, there are %q", err, there())
	} else if last(); len(there()) != 0 {
		t.Errorf("a command that has ended leaves %q", there())
	}
	remove()
	o.via = wayLocal
	if lead, not := o.kubeconfig(); lead != nil || !strings.Contains(not, "--via local") {
		t.Errorf("by --via local: %q", not)
	}
}

// TestSetAgain wants answers and actions that are typed at a resume to come to those of the
// journal, and any other flag to be as it is typed.
func TestSetAgain(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{}
	answers := cmd.Flags().StringArray("answer", nil, "")
	actions := cmd.Flags().StringSlice("allow-actions", nil, "")
	peers := cmd.Flags().String("peers", "2", "")
	if err := cmd.ParseFlags([]string{"--answer", "b=2", "--answer", "c=3", "--allow-actions=x", "--peers=0"}); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string][]string{"answer": {"a=1", "b=1"}, "allow-actions": {"x", "y"}, "peers": {"5"}} {
		if err := setAgain(cmd, name, values); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(*answers, []string{"b=2", "c=3", "a=1"}) || !slices.Equal(*actions, []string{"x", "y"}) || *peers != "0" {
		t.Errorf("%q, %q, %q", *answers, *actions, *peers)
	}
}

// TestStopwatch wants the time of a person not counted.
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
