package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPreflightOfNobody requires preflight to name the missing right of a user without rights, without the advice to
// use preflight.
func TestPreflightOfNobody(t *testing.T) {
	t.Parallel()
	for version, c := range map[bool]struct {
		exit int
		says string
	}{
		true:  {report.ExitFault, "no right to list nodes, which every run does first: apply the output of: calico-probe manifests"},
		false: {report.ExitTool, "error: no right to do this: reading the API server's version"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case version && r.URL.Path == "/version":
				_, _ = io.WriteString(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.1"}`)
				return
			case strings.HasSuffix(r.URL.Path, "selfsubjectaccessreviews"):
				_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": {"allowed": false}}`)
				return
			}
			verb := map[bool]string{true: "list", false: "get"}[r.URL.Path == "/api/v1/nodes"]
			refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", fmt.Errorf("User %q cannot %s resource %q", "nobody", verb, "nodes")).Status()
			refusal.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(refusal)
		}))
		config := filepath.Join(t.TempDir(), "config")
		must.Do(t, os.WriteFile(config, []byte("apiVersion: v1\nkind: Config\n"), 0o600))
		var out, errs bytes.Buffer
		code := Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs},
			[]string{"preflight", "--kubeconfig", config, "--server", server.URL})
		server.Close()
		said := strings.Join(strings.Fields(out.String()+errs.String()), " ")
		if code != c.exit || !strings.Contains(said, c.says) || strings.Contains(said, "'calico-probe preflight'") {
			t.Errorf("exit %d: %s", code, said)
		}
	}
}

// TestManifests requires manifests with their subjects, and one line for wrong usage.
func TestManifests(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		exit int
		says string
	}{
		"install":                                  {report.ExitUsage, `unknown command "install"`},
		"manifests --methods pods":                 {report.ExitUsage, `unknown access method "pods"`},
		"manifests --service-account runner":       {report.ExitUsage, "NAMESPACE:NAME"},
		"manifests --methods api --user jane":      {report.ExitHealthy, "name: jane"},
		"manifests --methods api --user cn=a,ou=b": {report.ExitHealthy, "name: cn=a,ou=b"}, // one user
		"manifests --methods outside -n there":     {report.ExitHealthy, "namespace: there"},
		"manifests --calico-namespace elsewhere":   {report.ExitHealthy, "namespace: elsewhere"},
		"manifests -n Ops":                         {report.ExitUsage, `"Ops": invalid namespace`},
		"manifests --calico-namespace a/b":         {report.ExitUsage, `"a/b": invalid namespace`},
		"preflight --via local":                    {report.ExitUsage, `unknown access method "local"; --via takes auto, or a list of api, pod`},
		"preflight --via pod,pod":                  {report.ExitUsage, "--via names pod twice"},
		"preflight --via pods":                     {report.ExitUsage, "did you mean pod?"},
		"preflight --ssh root@a;b":                 {report.ExitUsage, `--ssh "root@a;b" is not a valid destination`},
		"preflight --ssh root@":                    {report.ExitUsage, `--ssh "root@" is not a valid destination`},
		"preflight --ssh {other}":                  {report.ExitUsage, `--ssh "{other}" is not a valid destination`},
		"preflight --ssh-config /nofile":           {report.ExitUsage, "--ssh-config: stat /nofile: no such file"},
		"preflight --ssh-config /":                 {report.ExitUsage, "--ssh-config: / is a folder"},
		"preflight --ssh -x":                       {report.ExitUsage, "is not a valid destination"},
	} {
		var out, errs bytes.Buffer
		got := Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs}, strings.Fields(args))
		if got != want.exit || !strings.Contains(out.String()+errs.String(), want.says) {
			t.Errorf("%s: exit %d: %s%s", args, got, &out, &errs)
		}
		if want.exit == report.ExitUsage && (out.Len() > 0 || strings.Count(errs.String(), "\n") != 1) {
			t.Errorf("%s: %s%s", args, &out, &errs)
		}
	}
}

// TestSeveral requires the last item of a list to be completed with values that the list lacks.
func TestSeveral(t *testing.T) {
	t.Parallel()
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	verb, _, err := a.command().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	complete, ok := verb.GetFlagCompletionFunc("checks")
	if !ok {
		t.Fatal("--checks is not completed")
	}
	via, _ := verb.GetFlagCompletionFunc("via")
	one, _ := via(verb, nil, "")
	more, _ := via(verb, nil, "exec,p")
	if !slices.Contains(one, "api") || !slices.Contains(one, "auto") ||
		!slices.Equal(more, []string{"exec,pod", "exec,ephemeral", "exec,ssh"}) {
		t.Errorf("--via: %v, %v", one, more)
	}
	got, _ := complete(verb, nil, "bgp-session,fel")
	if !slices.Contains(got, "bgp-session,felix-live") || !slices.Contains(got, "bgp-session,bgp") ||
		slices.Contains(got, "bgp-session,bgp-session") {
		t.Errorf("got %v", got)
	}
}

// TestAdvised requires commands in help and messages to have the plugin's name, and data to be the same under both
// names. It is not parallel, because the program's name is global.
func TestAdvised(t *testing.T) {
	said := func(args ...string) string {
		var out, errs bytes.Buffer
		Run(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errs}, args)
		return out.String() + errs.String()
	}
	data := []string{"schema", "event"}
	plain := said(data...)
	ui.AsPlugin = true
	defer func() { ui.AsPlugin = false }()
	if got, want := ui.Advised("use 'calico-probe clean', container calico-probe-1\n  calico-probe run\n"), "use 'kubectl calico-probe clean', container calico-probe-1\n  kubectl calico-probe run\n"; got != want {
		t.Errorf("got %q", got)
	}
	for want, args := range map[string][]string{
		"  kubectl calico-probe run worker-3\n":      {"run", "--help"},
		"  kubectl calico-probe [command]\n":         nil,
		"'kubectl calico-probe checks' lists checks": {"run", "--node", "n", "--checks", "nothing"},
	} {
		if got := said(args...); !strings.Contains(got, want) || strings.Contains(got, "\n  calico-probe ") {
			t.Errorf("%v: no %q in %s", args, want, got)
		}
	}
	if got := said(data...); got != plain {
		t.Errorf("by the plugin's name data is %.300s", got)
	}
}

// TestPreflightOfNoNode requires that the report names no node if none could be read.
func TestPreflightOfNoNode(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"major":"1","minor":"36","gitVersion":"v1.36.0"}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "report")
	exit, out, errs := call(t, "preflight", "--kubeconfig", kubeconfigTo(t, server.URL), "-o", "table",
		"-o", "json="+file+".json", "-o", "ndjson="+file+".ndjson")
	if exit != report.ExitIncomplete && exit != report.ExitFault || !strings.Contains(out, " on none: ") ||
		strings.Contains(out, "node any") {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
	whole := must.Get(os.ReadFile(file + ".json"))(t)
	if err := validate(compiled(t, "report"), string(whole)); err != nil {
		t.Error(err)
	}
	stream := must.Get(os.ReadFile(file + ".ndjson"))(t)
	for line := range strings.Lines(string(stream)) {
		if err := validate(compiled(t, "event"), line); err != nil {
			t.Error(err)
		}
	}
}
