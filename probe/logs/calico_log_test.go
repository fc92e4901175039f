package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// The lines have the formats of calico-node v3.32.1; it was seen to exit for these reasons.
func TestContainerLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 33, 30, 0, time.UTC)
	// log creates a file of lines "SECONDS LEVEL TEXT" before now, in Calico's and the runtime's format.
	log := func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			var before int
			var level string
			must.Get(fmt.Sscan(l, &before, &level))(t)
			at := now.Add(-time.Duration(before) * time.Second)
			text := strings.SplitN(l, " ", 3)[2]
			if level != "-" {
				text = at.Format("2006-01-02 15:04:05.000") + " [" + level + "][9] " + text
			}
			fmt.Fprintf(&b, "%s stdout F %s\n", at.Format(time.RFC3339Nano), text)
		}
		return b.String()
	}
	refused := `cni-installer/install.go 475: Unable to create token for CNI kubeconfig error=serviceaccounts "calico-cni-plugin" is forbidden: User "system:serviceaccount:kube-system:calico-node" cannot create resource "serviceaccounts/token" in API group "" in the namespace "kube-system"`
	for name, c := range map[string]struct {
		runs      []string
		status    probe.Status
		signature string
		says      string
	}{
		"no rights": {[]string{log("9 INFO install.go 134: Running", "8 FATAL "+refused)}, probe.Fail, FaultForbidden, "cannot create"},
		"an address that is none": {[]string{log("3 WARNING startup/startup.go 753: Environment does not contain a valid IPv4 address: IP=999.1.2.3",
			"3 WARNING startup/utils.go 47: Terminating", "3 - Calico node failed to start")}, probe.Fail, faultBadAddress, "999.1.2.3"},
		"a resource that is not there": {[]string{log("3 ERROR startup/startup.go 233: Unable to set global default configuration error=the server could not find the requested resource (post FelixConfigurations.crd.projectcalico.org)",
			"3 WARNING startup/utils.go 47: Terminating")}, probe.Fail, faultNoResource, "could not find"},
		"Felix ended and was started anew": {[]string{log("30 FATAL felix/daemon.go 1: Kernel's RPF check is set to 'loose'",
			"2 INFO felix/daemon.go 2: Felix starting up")}, probe.Warn, faultLooseRPF, "loose"},
		"the run before, a moment ago":    {[]string{log("90 FATAL " + refused), log("2 INFO install.go 134: Running")}, probe.Warn, FaultForbidden, "a new run has just started"},
		"the run before, and nothing yet": {[]string{log("90 FATAL " + refused), ""}, probe.Warn, FaultForbidden, "run 0 ended"},
		"the run before, long ago":        {[]string{log("9000 FATAL " + refused), log("20 INFO install.go 134: Running")}, probe.OK, "", "no error"},
		"mended since": {[]string{log("900 FATAL " + refused), log("800 INFO a", "1 INFO b")},
			probe.OK, "", "no error"},
		"a panic":                    {[]string{log("2 - panic: runtime error: index out of range", "2 - goroutine 1 [running]:")}, probe.Fail, "", "panic"},
		"an error that is not known": {[]string{log("2 ERROR felix/x.go 1: something odd", "1 INFO felix/y.go 2: fine")}, probe.Info, "", "something odd"},
		"an old one that is":         {[]string{log("2000 ERROR felix/daemon.go 1: dial tcp 10.96.0.1:443: i/o timeout", "1 INFO y.go 2: fine")}, probe.Info, FaultNoAPI, "continues"},
		"harmless, and like a fault": {[]string{log("2 INFO felix/ifacemonitor.go 1: Unsupported link type, ignoring", "1 INFO felix/y.go 2: fine")}, probe.OK, "", "no error"},
		"a reason that was over": {[]string{log("9 WARNING startup/startup.go 570: Hit error connecting to datastore - retry error=dial tcp 10.96.0.1:443: i/o timeout",
			"8 INFO startup/startup.go 581: Datastore connection verified", "3 ERROR startup/startup.go 812: the decisive reason",
			"3 WARNING startup/utils.go 47: Terminating", "3 - Calico node failed to start")}, probe.Fail, "", "the decisive reason"},
		"a warning that was over": {[]string{log("9 WARNING startup/startup.go 570: Hit error connecting to datastore - retry error=dial tcp 10.96.0.1:443: i/o timeout",
			"8 INFO startup/startup.go 581: Datastore connection verified", "3 WARNING startup/utils.go 47: Terminating")}, probe.Fail, "", "Terminating"},
		"an error that was over": {[]string{log("9 ERROR startup/startup.go 1: dial tcp 10.96.0.1:443: i/o timeout",
			"8 INFO startup/startup.go 581: Datastore connection verified", "3 ERROR startup/startup.go 812: the decisive reason",
			"3 WARNING startup/utils.go 47: Terminating")}, probe.Fail, "", "the decisive reason"},
		"a recognised error before its consequence": {[]string{log("3 ERROR startup/startup.go 207: Failed to read Node error=dial tcp 10.96.0.1:443: i/o timeout",
			"3 ERROR startup/startup.go 220: Unable to set node resource configuration", "3 WARNING startup/utils.go 47: Terminating")}, probe.Fail, FaultNoAPI, "i/o timeout"},
		"a tenant's annotation in a warning": {[]string{log(`2 WARNING felix/watchercache.go 5: Bad annotation error=serviceaccounts "x" is forbidden: User "system:serviceaccount:prod:ci-admin" cannot delete resource "nodes"`)},
			probe.OK, "", "no error"},
		"a tenant's annotation in an error": {[]string{log(`2 ERROR felix/watchercache.go 5: Bad annotation error=serviceaccounts "x" is forbidden: User "system:serviceaccount:kube-system:calico-node" cannot delete resource "nodes"`)},
			probe.Info, "", "Bad annotation"},
		"a tenant's line of its own": {[]string{log(`2 FATAL cni-installer/install.go 1: "x" is forbidden: User "system:serviceaccount:prod:ci-admin" cannot delete resource "nodes"`,
			"1 INFO felix/y.go 2: fine")}, probe.Info, "", "continues"},
		"an error of a tenant's first":      {[]string{log("2 ERROR felix/policy.go 5: dial tcp 10.96.0.1:443: i/o timeout")}, probe.Info, "", "its last error"},
		"a program of another architecture": {[]string{log("2 - exec /usr/bin/start_runit: exec format error")}, probe.Fail, faultExecFormat, "exec format"},
		"localhost has no address": {[]string{log("2 ERROR felix/health.go 389: Health endpoint failed, trying to restart it... error=listen tcp: lookup localhost on 10.96.0.10:53: server misbehaving",
			"1 INFO felix/y.go 2: fine")}, probe.Warn, faultNoLocalhost, "logs"},
		"the health port is taken": {[]string{log("2 ERROR felix/health.go 389: Health endpoint failed, trying to restart it... error=listen tcp 127.0.0.1:9099: bind: address already in use",
			"1 INFO felix/y.go 2: fine")}, probe.Info, "", "continues"},
		"warnings are usual": {[]string{log("2 WARNING felix/x.go 1: Reporter is not ready", "1 INFO y.go 2: fine")}, probe.OK, "", "no error"},
		"an error of before": {[]string{log("400 ERROR felix/x.go 1: Failed to dial", "1 INFO felix/y.go 2: fine")}, probe.Info, "",
			"history: its last error was felix/x.go 1: Failed to dial, 6m ago"},
		"nothing written": {nil, probe.Skip, "", "nothing yet"},
	} {
		root := t.TempDir()
		folder := filepath.Join(root, logPods, "c")
		must.Do(t, os.MkdirAll(folder, 0o700))
		for i, text := range c.runs {
			must.Do(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.log", i)), []byte(text), 0o600))
		}
		r := containerLog(&probe.Host{Root: root}, logPods+"/c", "kube-system:calico-node", now)
		if strings.Contains(r.Saw, "history: ") != (r.Facts[probe.FactHistory] == true) {
			t.Errorf("%s: %v", name, r.Facts)
		}
		if r.Status != c.status || r.Facts.Str(FactSignature) != c.signature || !strings.Contains(r.Saw, c.says) {
			t.Errorf("%s: %s %q %q, want %s %q with %q", name, r.Status, r.Facts.Str(FactSignature), r.Saw, c.status, c.signature, c.says)
		}
	}
	r := judge(podlog.Parse([]byte(log("8 FATAL "+refused))), "").result(probe.Fail, "run %d: %s", 0, now)
	if r.Facts.Str(factWho) != "kube-system:calico-node" || r.Facts.Str(factMay) != "create serviceaccounts/token" {
		t.Errorf("who may not do what: %v", r.Facts)
	}
}

// TestCalicoLogFolder checks that only the log of the pod that the API names is read, and that a missing API is
// reported.
func TestCalicoLogFolder(t *testing.T) {
	t.Parallel()
	const fatal = "2026-11-22T12:00:00Z stderr F 2026-11-22 12:00:00.000 [FATAL][1] cni-installer/install.go 1: the reason\n"
	const pod = "kube-system_calico-node-a_1"
	of := func(logs string) []probe.Target {
		return []probe.Target{{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrLogs: logs}}}
	}
	other := []probe.Target{{Kind: probe.KindFelix}}
	refused := map[string]string{probe.KindCalico: "forbidden"}
	for name, c := range map[string]struct {
		folder, file string
		targets      []probe.Target
		gaps         map[string]string
		want         probe.Status
		says         string
	}{
		"the pod of the plan":      {pod, "0.log", of(pod), nil, probe.Fail, "the reason"},
		"its folder is not there":  {pod, "0.log", of("kube-system_calico-node-b_2"), nil, probe.Skip, "no log of"},
		"no verified calico-node":  {pod, "0.log", other, nil, probe.Skip, "no verified"},
		"the API was not answered": {pod, "0.log", other, refused, probe.Unknown, "forbidden"},
		"no API was asked":         {pod, "0.log", nil, nil, probe.Fail, "the reason"},
		"a decoy":                  {"calico-system_calico-node-a_1", "0.log", nil, nil, probe.Skip, "no log of"},
		"no run's name":            {pod, "+1.log", nil, nil, probe.Skip, "nothing yet"},
		"nothing at all":           {"", "", nil, nil, probe.Skip, "no log of calico-node"},
	} {
		root := t.TempDir()
		folder := filepath.Join(root, logPods, c.folder, "install-cni")
		ours := filepath.Join(root, logPods, c.folder, "calico-probe-0011aabb", "0.log")
		if c.folder != "" { // and the log of a probe in the same pod, which is ignored
			must.Do(t, os.MkdirAll(filepath.Dir(ours), 0o700))
			must.Do(t, os.WriteFile(ours, []byte(fatal), 0o600))
			must.Do(t, os.MkdirAll(folder, 0o700))
			must.Do(t, os.WriteFile(filepath.Join(folder, c.file), []byte(fatal), 0o600))
		}
		got := calicoLogOf(t, root, c.targets, c.gaps)
		if len(got) != 1 || got[0].Status != c.want || !strings.Contains(got[0].Saw, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.want, c.says)
		}
	}
}

func calicoLogOf(t *testing.T, root string, targets []probe.Target, gaps map[string]string) []probe.Result {
	t.Helper()
	var got []probe.Result
	calicoLog(t.Context(), &probe.Pass{Host: &probe.Host{Root: root}, Targets: targets, Gaps: gaps,
		Report: func(r probe.Result) { got = append(got, r) }})
	return got
}

// TestCalicoLogIsALog checks that no file behind a link is read, and few containers are examined.
func TestCalicoLogIsALog(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	pod := filepath.Join(root, logPods, "kube-system_calico-node-a_1")
	for i := range logContainers + 3 {
		must.Do(t, os.MkdirAll(filepath.Join(pod, fmt.Sprintf("c%02d", i)), 0o700))
	}
	must.Do(t, os.MkdirAll(filepath.Join(root, "etc"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(root, "etc", "shadow"), []byte("panic: root:x\n"), 0o600))
	must.Do(t, os.Symlink("/etc/shadow", filepath.Join(pod, "c00", "0.log")))
	got := calicoLogOf(t, root, nil, nil)
	if len(got) != logContainers || got[0].Status != probe.Skip || strings.Contains(got[0].Saw, "root:x") {
		t.Errorf("%d results, the first: %+v", len(got), got[0])
	}
}
