package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestServeRefuses rejects bad flags and files in one line, before it listens.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	const head = "apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\nspec: {routes: [{match: ['alertname=~\".+\"'], "
	right := put("right.yaml", head+"runbook: node-not-ready}]}")
	for args, want := range map[string]string{
		"--token-file x":                     "no folder for jobs and reports: set --store",
		"--store " + dir:                     "no authentication is configured: set --token-file, or --client-ca",
		"--store " + dir + " --token-file x": "tokens would be sent to :8080 without TLS",
		"--store " + dir + " --token-file x --listen 10.0.0.1:80":                                         "tokens would be sent to 10.0.0.1:80 without TLS",
		"--store " + dir + " --token-file x --listen 127.0.0.2":                                           `--listen takes HOST:PORT, or :PORT for every address of this machine; "127.0.0.2" is neither`,
		"--store " + dir + " --token-file x --listen=":                                                    `--listen takes HOST:PORT, or :PORT`,
		"--store " + dir + " --token-file x --listen 127.0.0.2:":                                          `"127.0.0.2:" is neither`,
		"--store " + dir + " --token-file x --listen 127.0.0.2:1 --health-listen=":                        "--health-listen takes HOST:PORT, or :PORT",
		"--store " + dir + " --token-file x --listen 127.0.0.2:1 --health-listen :1":                      "give --health-listen another port",
		"--store " + dir + " --token-file x --listen 127.0.0.2:1 --health-listen 127.0.0.2:1":             "give --health-listen another port",
		"--store " + dir + " --token-file x --listen 127.0.0.2:0 --health-listen 127.0.0.2:0 --via other": `unknown access method "other"`,
		"--store " + dir + " --token-file x --listen 127.0.0.2:1 --health-listen 127.0.0.3:1 --via other": `unknown access method "other"`,
		"--store " + dir + " --token-file x --tls-cert x":                                                 "--tls-cert and --tls-key belong together",
		"--store " + dir + " --token-file x --insecure-http --tls-key x":                                  "--tls-cert and --tls-key belong together",
		"--store " + dir + " --client-ca x":                                                               "--client-ca needs TLS: set --tls-cert and --tls-key too",
		"--store " + dir + " --read-token-file x --client-ca x --tls-cert x --tls-key x":                  "set --token-file too",
		"--store " + dir + " --token-file x --listen 127.0.0.1:1 --via ssh":                               "--via ssh does not work in a pod",
		"--store " + dir + " --token-file x --listen [::1]:1 --via other":                                 `unknown access method "other"`,
		"--store " + dir + " --token-file x --listen 127.0.0.2:1 --via other":                             `unknown access method "other"`,
		"--store " + dir + " --token-file x --listen localhost:1 --via other":                             `unknown access method "other"`,
		"--store " + dir + " --token-file x --tls-cert x --tls-key x --via other":                         `unknown access method "other"`,
		"--store " + dir + " --client-ca x --tls-cert x --tls-key x --via other":                          `unknown access method "other"`,
		"--store " + dir + " --token-file x --insecure-http --via ssh":                                    "--via ssh does not work in a pod",
		"--store " + dir + " --token-file x --insecure-http --via other":                                  `unknown access method "other"`,
		"--store " + dir + " --token-file x --insecure-http --log-format xml":                             "--log-format takes text or json",
		"--store " + dir + " --token-file x --insecure-http --config none":                                "open none: no such file",
		"--ssh host":     "unknown flag: --ssh",
		"--workers 4":    "unknown flag: --workers",
		"--check-config": "set --config",
		"argument":       "takes no arguments",
		"--check-config --config " + put("runbook.yaml", head+"runbook: other}]}"): `unknown runbook "other": use one of `,
		"--check-config --config " + put("profile.yaml", head+"profile: other}]}"): `unknown profile "other": use one of quick`,
		"--check-config --config " + right + " --runbooks " + filepath.Join(dir,
			"none"): "reading runbooks",
		"--check-config --config " + right: "",
		"--check-config --config " + put("typo.yaml", strings.Replace(head, "kind", "knd",
			1)): "reading the configuration",
		"--check-config --config " + put("limits.yaml", head+"runbook: node-not-ready}], limits: {workers: 0}}"):      "spec.limits: workers, queue and runsPerHour must be 1 or more",
		"--check-config --config " + put("only.yaml", strings.Split(head, "spec:")[0]+"spec: {limits: {workers: 4}}"): "",
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
			append([]string{"serve"}, strings.Fields(args)...))
		wantCode := report.ExitUsage
		if want == "" {
			wantCode = report.ExitHealthy
		}
		if said := errs.String(); code != wantCode || !strings.Contains(said, want) || strings.Count(said, "\n") > 1 {
			t.Errorf("serve %s: exit %d, %s%s; want %q", args, code, out.String(), said, want)
		}
	}
}

// TestServeRunbooks requires an alert to start a built-in runbook, the user's runbook before it, and rejects a runbook
// that declares alerts but cannot run for them.
func TestServeRunbooks(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: %s}\nspec:\n  title: ours\n%s\n"
	const note, answers = "  steps: [{note: nothing}]\n", "  alerts: [KubeNodeNotReady]\n"
	for name, c := range map[string]struct {
		books map[string]string
		odd   string // the one that is told of
		first string // of the routes for KubeNodeNotReady
		want  string // the error
	}{
		"none": {nil, "", "node-not-ready", ""},
		"ours": {map[string]string{"zz-ours": answers + note}, "", "zz-ours", ""},
		"wants a parameter": {map[string]string{"ours": "  params: [{name: peer}]\n" + note},
			"ours", "node-not-ready", ""},
		"wants one and answers":    {map[string]string{"ours": answers + "  params: [{name: peer}]\n" + note}, "", "", "no alert can start the runbook ours: "},
		"broken":                   {map[string]string{"node-not-ready": "  nothing: 1\n"}, "", "", "no alert can start the runbook node-not-ready: "},
		"two of ours":              {map[string]string{"a": answers + note, "b": answers + note}, "", "", "the runbooks a and b both answer the alert KubeNodeNotReady"},
		"by ssh":                   {map[string]string{"ours": answers + "  steps: [{run: {via: ssh}}]\n"}, "", "", "it uses the access method ssh, which does not work in a pod"},
		"of this machine, later":   {map[string]string{"ours": answers + "  steps: [{run: {}}, {choose: [{name: x, when: 'true', steps: [{wait: {until: 'true', within: 1m, run: {via: local}}}]}]}]\n"}, "", "", "it uses the access method local"},
		"a question and no answer": {map[string]string{"ours": answers + "  steps: [{name: q, ask: {question: 'is it?'}}]\n"}, "", "", "its question q does not have a default"},
	} {
		dir := t.TempDir()
		for book, spec := range c.books {
			must.Do(t, os.WriteFile(filepath.Join(dir, book+".yaml"), fmt.Appendf(nil, text, book, spec), 0o600))
		}
		var odd []string
		books, err := startable([]string{dir}, func(name, _ string) { odd = append(odd, name) })
		var routes alerts.Routes
		if err == nil {
			routes, err = routesOf(books)
		}
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, new(ui.UsageError)) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil || strings.Join(odd, " ") != c.odd {
			t.Errorf("%s: %v; no alert can start %v", name, err, odd)
		}
		i := slices.IndexFunc(routes.Spec.Routes,
			func(r alerts.Route) bool { return r.Match[0] == `alertname="KubeNodeNotReady"` })
		if i < 0 || routes.Spec.Routes[i].Runbook != c.first {
			t.Errorf("%s: KubeNodeNotReady leads to route %d of %+v", name, i, routes.Spec.Routes)
		}
	}
}

// TestServeRoots requires 'serve' to trust public CAs if the machine has none, as in its image; other verbs must not.
func TestServeRoots(t *testing.T) {
	t.Parallel()
	if os.Getenv("SSL_CERT_FILE") == os.DevNull { // what is started below
		for _, none := range []bool{true, false} {
			if pool, err := x509.SystemCertPool(); err != nil || pool.Equal(x509.NewCertPool()) != none {
				t.Errorf("there are none is not %v: %v", none, err)
			}
			if none {
				must.Do(t, trustPublicCAs())
			}
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeRoots$")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeVia runs a runbook with its own access method: serve's --via takes precedence.
func TestServeVia(t *testing.T) {
	t.Parallel()
	for via, asked := range map[string]string{"mine": `unknown access method "mine"`, "auto": `unknown access method "theirs"`} {
		o := &serveOptions{runFlags: &runFlags{app: &app{},
			Options: examine.Options{Via: via, FailOn: "fail", Timeout: time.Minute}}}
		_, err := o.world(slog.New(slog.DiscardHandler), nil, o.Options).Run(t.Context(), "n", runbook.Run{Via: "theirs"})
		if err == nil || !strings.Contains(err.Error(), asked) {
			t.Errorf("with --via %s: %v", via, err)
		}
	}
}

// TestServeTakesNoSSH requires that a step with any method never uses one that needs keys.
func TestServeTakesNoSSH(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ serve, step, want string }{
		{"auto", "auto", viaInPod()}, {"auto", "pod", "pod"}, {"auto", "", ""}, {"api", "auto", ""}, {"pod", "exec", ""},
	} {
		o := &serveOptions{runFlags: &runFlags{Options: examine.Options{Via: c.serve}}}
		if got := o.viaOf(c.step); got != c.want {
			t.Errorf("serve --via %s, a step's %q: %q, want %q", c.serve, c.step, got, c.want)
		}
	}
}

// TestServeJournal resumes after the program was killed.
func TestServeJournal(t *testing.T) {
	t.Parallel()
	rb, err := runbook.Load("ours", []byte("apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: ours}\nspec:\n  title: ours\n  steps: [{note: nothing}, {conclude: {verdict: fault, says: it was seen}}]\n"), knownToRunbooks())
	if err != nil {
		t.Fatal(err)
	}
	o := &serveOptions{runFlags: &runFlags{app: &app{}, Options: examine.Options{Via: "api"}},
		books: map[string]runbook.Item{"ours": {Runbook: rb}}}
	log, job := slog.New(slog.DiscardHandler), alerts.Job{ID: "1", Node: "n", Procedure: alerts.Procedure{Runbook: "ours"}}
	dir := t.TempDir()
	name := filepath.Join(dir, "journal")
	follow := func(what string, want string) {
		t.Helper()
		got, err := o.follow(t.Context(), log, nil, o.Options, job, dir)
		if said := fmt.Sprint(err, got.Says); !strings.Contains(said, want) || (err == nil) != (want == "it was seen") {
			t.Errorf("%s: %s", what, said)
		}
	}
	follow("at first", "it was seen")
	ended, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	o.books = nil // which only one that begins has to have
	follow("ended", "it was seen")
	if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, ended) {
		t.Errorf("what had ended was done again: %s (%v)", again, err)
	}
	put := func(b []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(name, b, 0o600))
	}
	first := append(bytes.SplitN(ended, []byte("\n"), 2)[0], '\n')
	put(first)
	follow("cut behind its first line", "it was seen")
	put(first)
	held, err := runbook.OpenJournal(name, true)
	if err != nil {
		t.Fatal(err)
	}
	follow("held by another process", runbook.ErrInUse.Error())
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, first) {
		t.Errorf("the journal of another process is now %q (%v)", b, err)
	}
	must.Do(t, held.Close())
	put(bytes.Replace(first, []byte(`"version":"`), []byte(`"version":"other `), 1))
	follow("of another version, its runbook gone", "runbook ours no longer exists")
	put([]byte("{"))
	follow("cut in its first line, its runbook gone", "runbook ours no longer exists")
}

// TestServeStartsNoCommand runs a runbook for an alert with commands in a check, a notify and an action. None of them
// starts, not even the dry run and the keep of the action.
func TestServeStartsNoCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	touch := fmt.Sprintf("[sh, -c, 'echo x >>%s']", started)
	rb, err := runbook.Load("ours", fmt.Appendf(nil, "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\n"+
		"metadata: {name: ours}\nspec:\n  title: ours\n  steps:\n"+
		"  - {name: look, check: {id: own-check, asks: x, command: %[1]s}}\n  - {name: tell, notify: {command: %[1]s}}\n"+
		"  - {name: mend, action: {says: mend it, touches: a file, dryRun: %[1]s, keep: [%[1]s], command: %[1]s}}\n"+
		"  - {conclude: {verdict: fault, says: it was seen}}\n", touch), knownToRunbooks())
	if err != nil {
		t.Fatal(err)
	}
	o := &serveOptions{runFlags: &runFlags{app: &app{}, Options: examine.Options{Via: "api"}},
		books: map[string]runbook.Item{"ours": {Runbook: rb}}}
	job := alerts.Job{ID: "1", Node: "n", Procedure: alerts.Procedure{Runbook: "ours"}}
	got, err := o.follow(t.Context(), slog.New(slog.DiscardHandler), nil, o.Options, job, dir)
	if err != nil || !bytes.Contains(got.JSON, []byte(`"tell"`)) {
		t.Errorf("%v: %s", err, got.JSON)
	}
	if b, err := os.ReadFile(started); err == nil {
		t.Errorf("%d commands were started: %s", bytes.Count(b, []byte("x")), got.JSON)
	}
}

// TestServeTells requires a message that fits into an event, with the report's address.
func TestServeTells(t *testing.T) {
	t.Parallel()
	job := alerts.Job{ID: "20261121-1", Alerts: []alerts.Alert{{Name: strings.Repeat("\u202e\n", 500)}},
		Says: strings.Repeat("é", 600)}
	for verdict, reason := range map[string]string{
		alerts.Fault: reasonFault, alerts.Incomplete: reasonIncomplete, alerts.Healthy: reasonHealthy,
		alerts.Warnings: reasonHealthy,
	} {
		job.Verdict = verdict
		got, note := eventOf(job, "")
		if got != reason || len(note) > 1024 || !strings.HasPrefix(note, verdict+": ") ||
			!strings.Contains(note, "/reports/20261121-1") || strings.ContainsAny(note, "\n\u202e\ufffd") {
			t.Errorf("%s: %s, %d bytes: %s", verdict, got, len(note), note)
		}
	}
	long := "https://" + strings.Repeat("a", maxURL-len("https:///")) + "/"
	if _, note := eventOf(job, long); !reachedAt(long) || len(note) > 1024 ||
		!strings.HasSuffix(note, "report: "+long+"reports/20261121-1)") {
		t.Errorf("%d bytes: %s", len(note), note)
	}
	for _, bad := range []string{"probe.example.com", "ftp://a", "https://", "https://me:pw@a",
		"https://a?x=y", long + "a"} {
		if reachedAt(bad) {
			t.Errorf("%s is taken", bad)
		}
	}
	for verdict, says := range map[string]string{alerts.Healthy: "healthy: nothing is wrong",
		alerts.Warnings: "warnings: see the report", alerts.Fault: "fault: see the report"} {
		if _, note := eventOf(alerts.Job{Verdict: verdict, Alerts: []alerts.Alert{{}}}, ""); !strings.HasPrefix(note, says) {
			t.Error(note)
		}
	}
}

func TestServeCameTo(t *testing.T) {
	t.Parallel()
	asked := func(node, cause string) runbook.Entry {
		a := runbook.Asked{Node: node}
		if cause != "" {
			a.Causes = make([]runbook.Cause, 1)
			a.Causes[0].ID, a.Causes[0].Says = cause, "what it says"
		}
		return runbook.Entry{Asked: []runbook.Asked{a}}
	}
	for _, c := range []struct {
		verdict, says string
		steps         []runbook.Entry
		want          string
	}{
		{alerts.Fault, "it is dead", []runbook.Entry{asked("a", "felix-down"), asked("a", "bird-dead"),
			asked("b", "swap-on"), {}}, "bird-dead: it is dead"},
		{alerts.Fault, "bird-dead it is", []runbook.Entry{asked("a", "bird-dead")}, "bird-dead it is"},
		{alerts.Healthy, "it is well", []runbook.Entry{asked("a", "felix-down"), asked("a", "")}, "it is well"},
		{alerts.Incomplete, "not known", nil, "not known"},
		{alerts.Fault, "", []runbook.Entry{asked("a", "bird-dead")}, "bird-dead: what it says"},
		{alerts.Fault, "", []runbook.Entry{asked("a", "")}, ""},
	} {
		r := &runbook.Record{Node: "a", Steps: c.steps, Outcome: &runbook.Outcome{Verdict: c.verdict, Says: c.says}}
		if got := conclusion(r); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestServeNodeNames queries the API once for a burst, and again for a node that has just joined.
func TestServeNodeNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		have := map[string]string{"a": "a", "10.0.0.1": "a"}
		var failing error
		n := &nodeNames{read: func(context.Context) (map[string]string, error) { asked++; return have, failing }}
		of := func(name, want string, reads int) {
			t.Helper()
			got, err := n.of(t.Context(), name)
			if got != want || !errors.Is(err, failing) || asked != reads {
				t.Errorf("%s is %q (%v) after %d reads; want %q after %d", name, got, err, asked, want, reads)
			}
		}
		of("10.0.0.1", "a", 1)
		of("a", "a", 1)
		of("node/a", "a", 1)
		of("b", "", 1)
		have = map[string]string{"a": "a", "b": "b"}
		time.Sleep(missingFor + time.Millisecond)
		of("b", "b", 2)
		of("10.0.0.1", "", 2)
		time.Sleep(namesFor + time.Millisecond)
		of("a", "a", 3)
		failing = errors.New("no answer")
		time.Sleep(namesFor + time.Millisecond)
		of("a", "", 4)
		of("b", "", 4)
		n.read = func(context.Context) (map[string]string, error) {
			time.Sleep(2 * time.Minute)
			return nil, failing
		}
		time.Sleep(missingFor + time.Millisecond)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.of(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("an API that is silent: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// TestServeBounded requires a limit for the kept part of an oversized report.
func TestServeBounded(t *testing.T) {
	t.Parallel()
	var b bounded
	for _, part := range []string{"{", strings.Repeat("x", alerts.MaxJSON-2), "}",
		strings.Repeat("y", alerts.MaxJSON), "z"} {
		if n, err := io.WriteString(&b, part); n != len(part) || err != nil {
			t.Fatalf("%d of %d: %v", n, len(part), err)
		}
		if got := b.kept.Len(); strings.HasPrefix(part, "}") && got != alerts.MaxJSON || got > alerts.MaxJSON+1 {
			t.Errorf("%d bytes are held", got)
		}
	}
	if got := b.kept.Bytes(); len(got) != alerts.MaxJSON+1 || got[alerts.MaxJSON] != 'y' {
		t.Errorf("%d bytes are held", len(got))
	}
}

// TestServeBoundsRecords requires the same limit for the record of a runbook, in both formats.
func TestServeBoundsRecords(t *testing.T) {
	t.Parallel()
	big := runbook.Entry{Kind: "note", Text: strings.Repeat("x", alerts.MaxJSON+1000)}
	r, err := reported(&runbook.Record{Outcome: &runbook.Outcome{Verdict: alerts.Healthy}, Steps: []runbook.Entry{big}})
	if err != nil || len(r.JSON) != alerts.MaxJSON+1 || len(r.Markdown) != alerts.MaxJSON+1 {
		t.Errorf("%d and %d bytes are held, %v", len(r.JSON), len(r.Markdown), err)
	}
}

// TestServeFirstOf requires the cause with the first sentence of its fix, and room for both.
func TestServeFirstOf(t *testing.T) {
	t.Parallel()
	c := probe.Cause{ID: "bird-dead", About: "IPv4", Says: "nobody listens"}
	c.Fix.Says = "Restart it. Then look again."
	if got := firstOf(report.Run{Causes: []probe.Cause{c}}); got != "bird-dead IPv4: nobody listens; fix: Restart it." {
		t.Error(got)
	}
	warns := report.Run{Node: "a", Events: []probe.Event{{Node: "a",
		Result: &probe.Result{Check: "node-swap", Status: probe.Warn}}}}
	if got := firstOf(warns); got != "nothing is wrong; warnings: node-swap" {
		t.Error(got)
	}
	c.Says, c.Fix.Says = strings.Repeat("a", 2000), strings.Repeat("b", 2000)
	if got := firstOf(report.Run{Causes: []probe.Cause{c}}); len(got) > 600 || !strings.Contains(got, "; fix: b") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
