package runbook_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLint requires one finding in each file of the archive, on its line.
func TestLint(t *testing.T) {
	t.Parallel()
	archive := must.Get(txtar.ParseFile("testdata/lint.txtar"))(t)
	want := ""
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ": want") {
			want = strings.TrimSpace(string(f.Data))
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			_, err := runbook.Load("x", f.Data, known())
			findings, ok := errors.AsType[runbook.LintError](err)
			if !ok || len(findings) != 1 {
				t.Fatalf("%d findings, want one: %q\n%v\n%s", len(findings), want, findings, f.Data)
			}
			line, what, _ := strings.Cut(want, ": ")
			if got := findings[0].String(); !strings.HasPrefix(got, "x:"+line+": ") || !strings.Contains(got, what) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestLintFindsEverything requires all findings at once, in line order.
func TestLintFindsEverything(t *testing.T) {
	t.Parallel()
	_, err := runbook.Load("x", []byte(written("  - note: ${params.color}\n  - note: |\n      one\n      two ${steps.a.verdict} ${verdic}\n  - run: {profile: quik}\n")), known())
	findings, ok := errors.AsType[runbook.LintError](err)
	if !ok || len(findings) != 4 {
		t.Fatalf("%v", err)
	}
	for i, line := range []int{8, 11, 11, 12} {
		if findings[i].Line != line {
			t.Errorf("finding %d is of line %d, want %d: %s", i, findings[i].Line, line, findings[i].What)
		}
	}
	if !strings.Contains(err.Error(), "did you mean colour") || !strings.Contains(err.Error(), "3 more") {
		t.Errorf("in one line: %v", err)
	}
}

// TestLintGoesOn requires the findings beside a misspelled field, but not their consequences.
func TestLintGoesOn(t *testing.T) {
	t.Parallel()
	_, err := runbook.Load("x", []byte(written("  - run: {profle: quick}\n    nam: look\n  - nots: x\n  - choose: [{name: a, whenn: b}]\n  - note: ${params.color}\n  - run: quick\n  - wait: {until: verdict, within: [1m]}\n")), known())
	findings, _ := errors.AsType[runbook.LintError](err)
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%d: %s", f.Line, f.What))
	}
	want := []string{"8: unknown field \"profle\"", "9: unknown field \"nam\"", "10: unknown field \"nots\"",
		"11: unknown field \"whenn\"", "12: unknown parameter color",
		"13: run must be a mapping", "14: within must be a duration", "14: until must be true or false"}
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

// TestLintWords rejects comparisons with impossible values.
func TestLintWords(t *testing.T) {
	t.Parallel()
	const ask = "  - name: q\n    ask: {question: a, options: [yes, no]}\n  - name: look\n    run: {}\n"
	for when, bad := range map[string]bool{
		`status("bgp-session") == "failed"`: true, `status("bgp-session") in ["fail", ""]`: false,
		`answers.q == "y"`: true, `"yes" == answers.q`: false, `answers.q != ""`: false,
		`verdict == "ok"`: true, `steps.look.verdict in ["healthy", "fine"]`: true, `verdict == "healthy"`: false,
		`causes.exists(c, c.confidence == "sure")`: true, `causes.exists(c, c.confidence == "high")`: false,
		`results.exists(r, r.status == "bad")`: true, `results.exists(r, r.facts.status == "own")`: false,
		`results.filter(r, r.status == "bad").size() > 0`: true, `causes.exists(c, c.explains.exists(e, e.cause == "" && e.check == "node-swap"))`: false,
		`params.status == "open" || params.verdict == "none" || params["cause"] == "none"`:  false,
		`params.cause == "none" || params.check in ["none"] || params.confidence == "sure"`: false,
		`answers.verdict == "none"`: false, `["open"].exists(status, status == "open")`: false,
		`["open"].exists(verdict, verdict == "open")`: false, `[{"a": "b"}].exists(params, params.a == "b")`: false,
	} {
		_, err := runbook.Load("x", []byte(strings.Replace(written(ask+"  - {name: verdict, ask: {question: b}}\n"+"  - when: '"+when+"'\n    note: x\n"), "params: [", "params: [{name: status}, {name: verdict}, {name: cause}, {name: check}, {name: confidence}, ", 1)), known())
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "it is never") {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// TestLintWarns requires a warning about expressions that may stop the runbook, or that never have an answer, but not
// if the runbook checks first.
func TestLintWarns(t *testing.T) {
	t.Parallel()
	const look = "  - name: look\n    run: {}\n"
	const swap = "  - when: causes[0].cause == \"swap-on\"\n    note: x\n"
	for name, c := range map[string]struct{ steps, want string }{
		"a host by a node": {look + "  - notify: {webhook: {url: \"https://${first(results).saw}/a\"}}\n",
			"x:10: warning: its host comes from an expression"},
		"a host behind another": {look + "  - notify: {webhook: {url: \"https://hooks.example${node}/a\"}}\n",
			"x:10: warning: its host comes from an expression"},
		"a path by a node":       {look + "  - notify: {webhook: {url: \"https://hooks.example/${node}\"}}\n", ""},
		"an index":               {look + swap, "x:10: warning: causes may have no such item"},
		"in a text":              {look + "  - note: |\n      a\n      b ${causes[0].says}\n", "x:12: warning: causes"},
		"of a step":              {look + "  - when: steps.look.results[0].saw != \"\"\n    note: x\n", "first(results), which is then empty"},
		"of a list of one's own": {look + "  - note: \"${results.filter(r, r.check == 'bgp-session')[0].saw}\"\n", ""},
		"of a text":              {look + "  - note: \"${node.split('.')[0]} ${first(causes).missing[0]}\"\n", ""},
		"the first":              {look + "  - when: first(causes).cause == \"swap-on\" && first(steps.look.causes).says != \"\"\n    note: \"${first(results).saw}\"\n", ""},

		"a check not asked":                       {"  - run: {checks: [bgp-session]}\n  - when: status(\"node-swap\") == \"fail\"\n    note: x\n", "x:9: warning: node-swap has no answer here"},
		"not by that step":                        {look + "  - name: bgp\n    run: {checks: [bgp-session]}\n  - when: steps.bgp.asked(\"node-swap\")\n    note: x\n", "step bgp does not run it"},
		"left out by skip":                        {"  - run: {skip: [node-swap]}\n  - when: asked(\"node-swap\")\n    note: x\n", "node-swap has no answer"},
		"results of no step":                      {"  - run: {checks: [bgp-session]}\n  - note: \"${results.filter(r, r.check == 'node-swap').size()}\"\n", "node-swap has no answer"},
		"nothing asked":                           {"  - when: status(\"node-swap\") == \"\"\n    note: x\n", "node-swap has no answer"},
		"asked by another step":                   {look + "  - run: {checks: [bgp-session]}\n  - when: steps.look.asked(\"node-swap\") && results.exists(r, r.check == \"node-swap\")\n    note: x\n", ""},
		"asked on one way":                        {"  - run: {checks: [bgp-session]}\n  - when: verdict == \"fault\"\n    run: {}\n  - when: status(\"node-swap\") == \"fail\"\n    note: x\n", ""},
		"by a tag":                                {"  - run: {checks: [bgp]}\n  - when: status(\"bgp-session\") == \"fail\"\n    note: x\n", ""},
		"one's own":                               {"  - check: {id: own-check, asks: x, that: \"true\", saw: y}\n  - when: status(\"own-check\") == \"fail\"\n    note: x\n", ""},
		"one's own, before":                       {"  - check: {id: own-check, asks: x, that: \"true\", saw: y}\n  - run: {}\n  - when: status(\"own-check\") == \"fail\"\n    note: x\n", "own-check has no answer"},
		"one's own, the node asked again, or not": {"  - check: {id: own-check, asks: x, that: \"true\", saw: y}\n  - run: {on: {names: [\"${params.colour}\"]}}\n  - when: status(\"own-check\") == \"fail\"\n    note: x\n", ""},
		"others do not count":                     {look + "  - run: {checks: [bgp-session], on: {others: 1}}\n  - when: status(\"node-swap\") == \"fail\"\n    note: x\n", ""},
		"a wait that asks again":                  {look + "  - wait: {until: status(\"node-swap\") == \"ok\" && status(\"bgp-session\") == \"ok\", within: 1m}\n", ""},
		"a wait that asks less":                   {look + "  - wait: {until: status(\"node-swap\") == \"ok\", within: 1m, run: {checks: [bgp-session]}}\n", "node-swap has no answer"},
		"a wait without end":                      {look + "  - wait: {until: verdict == \"healthy\", within: 10h}\n", "x:10: warning: it is longer than the default limit of a runbook (30m0s"},
	} {
		rb, err := runbook.Load("x", []byte(written(c.steps)), known())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := rb.Warnings()
		if (c.want == "") != (len(got) == 0) || c.want != "" && !strings.Contains(got[0].String(), c.want) || len(got) > 1 {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

// TestLintScripts rejects values in scripts, and accepts everything else.
func TestLintScripts(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		`sh, -c, 'ls ${node}'`: "in its script", `/bin/sh, -ce, 'ls ${node}'`: "in its script",
		`sh, -c, -e, 'ls ${node}'`: "in its script", `bash, -c, --, 'ls ${node}'`: "in its script",
		`bash, -euo, pipefail, -c, 'ls ${node}'`: "in its script", `sh, '-e${node}', -c, ls`: "in its script", `'C:\bin\bash.exe', -c, 'ls ${node}'`: "in its script",
		`sh, -c, 'ls "$1"', sh, "${node}"`: "", `sh, -e, ours.sh, -c, "${node}"`: "", `bash, --norc, ours.sh, "${node}"`: "", `grep, -c, "${node}", ours`: "",
		`sudo, -u, root, sh, -c, 'ls ${node}'`: "in its script", `env, -i, A=b, timeout, -k, 1s, "5", dash, -c, 'ls ${node}'`: "in its script", `chroot, /host, sh, -c, 'ls ${node}'`: "in its script",
		`kubectl, exec, pod, --, nsenter, -t, "1", -m, --, sh, -c, 'ls ${node}'`: "in its script", `busybox, sh, -c, 'ls ${node}'`: "in its script", `sudo, grep, -c, "${node}", sh`: "",
		`docker, exec, ours, sh, -c, 'ls ${node}'`: "warning: if sh is a shell,", `sudo, --user, root, sh, -c, 'ls ${node}'`: "warning: if sh is a shell,",
		`su, -c, 'ls ${node}'`: "in its script", `su, -, ann, -lc, 'ls ${node}'`: "in its script", `su, '--command=ls ${node}'`: "in its script", `runuser, ann, -c, 'ls ${node}'`: "in its script",
		`su, -c, ls, "${node}"`: "", `runuser, -u, ann, --, grep, -c, "${node}", ours`: "",

		`ssh, host, ls, "${node}"`: "ssh passes", `sudo, ssh, -p, "22", "root@${node}", ls, "${node}"`: "ssh passes", `ssh, host, -p, "22", ls, "${node}"`: "ssh passes", `timeout, "5", ssh, -tp, "22", host, "${node}"`: "ssh passes",
		`ssh, -l, "${params.colour}", -p, "${params.colour}", "${node}", ls`: "", `ssh, "${node}", -l, "${params.colour}", ls`: "", `ssh, -o, "HostName=${node}", "-oUser=${node}", host, ls`: "",
		`ssh, -o, "ProxyCommand=nc ${node} 22", host, ls`: "to a shell", `ssh, "-voproxycommand nc ${node} 22", host, ls`: "to a shell", `ssh, -vo, "${node}", host, ls`: "to a shell", `ssh, -o, ProxyCommand=nc %h 22, "${node}", ls`: "",
		`journalctl, -u, ssh, --since, "${node}"`: "", `sudo, -n, systemctl, status, ssh, "${node}"`: "", `grep, --, ssh, "${node}"`: "", `kubectl, get, pods, --, ssh, "${node}"`: "",
	} {
		rb, err := runbook.Load("x", []byte(written("  - check: {id: own-check, asks: x, command: ["+words+"]}\n")), known())
		said := fmt.Sprint(err)
		if err == nil {
			said = fmt.Sprint(rb.Warnings())
		}
		if want == "" && said != "[]" || !strings.Contains(said, want) ||
			(err == nil) != (want == "" || strings.HasPrefix(want, "warning")) {
			t.Errorf("%s: %s, want %q", words, said, want)
		}
	}
}

// TestLintOnlyReads rejects commands that change something before the confirmation, by kubectl's verb.
func TestLintOnlyReads(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"kubectl, delete, pod, logs": "changes", "kubectl, delete, pod, get": "changes", "sudo, -n, kubectl, delete, pod, x": "changes", "kubectl.exe, delete, pod, x": "changes",
		"kubectl, -n, get, delete, pod, x": "changes", "kubectl, --context, get, --insecure-skip-tls-verify, drain, x": "changes", "kubectl, rollout, -n, x, restart, ds/x": "changes",
		"kubectl, config, use-context, x": "warning", "kubectl, exec, p, --, rm, get": "warning", "kubectl, ours, x": "warning", "kubectl, exec, p, --, rm, --list": "warning", `kubectl, "${params.colour}"`: "warning",
		"kubectl, events": "", "kubectl, rollout, history, ds/x": "", "kubectl, -n, delete, get, pods": "", "kubectl, --namespace=x, logs, delete": "", "kubectl, apply, view-last-applied, ds/x": "",
		"kubectl, delete, pod, x, --dry-run=server": "", "kubectl, --dry-run=client, scale, x": "", "kubectl, label, node, x, --list": "", "cat, kubectl, delete": "", "kubectl, --help": "",
	} {
		for _, field := range []string{"keep: [[" + words + "]], dryRun: [echo]", "dryRun: [" + words + "]"} {
			rb, err := runbook.Load("x", []byte(written("  - {name: mend, action: {says: a, touches: b, command: [echo], "+field+"}}\n")), known())
			said := fmt.Sprint(err)
			if err == nil {
				said = fmt.Sprint(rb.Warnings())
			}
			if want == "" && said != "[]" || !strings.Contains(said, want) || (err == nil) != (want != "changes") {
				t.Errorf("%s: %s, want %q", field, said, want)
			}
		}
	}
}

// TestWordsAsWritten keeps words that YAML 1.1 parses as booleans.
func TestWordsAsWritten(t *testing.T) {
	t.Parallel()
	rb := loaded(t, "  - name: q\n    ask: {question: a, options: [yes, no, on, off]}\n  - run: {on: {names: [y]}}\n")
	if got := strings.Join(rb.Spec.Steps[0].Ask.Options, " "); got != "yes no on off" || rb.Spec.Steps[1].Run.On == nil {
		t.Errorf("got %q, %+v", got, rb.Spec.Steps[1].Run)
	}
}
