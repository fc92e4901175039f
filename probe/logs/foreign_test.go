package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// TestKubeLog has the last lines of kube-proxy and CoreDNS, and similar ones.
func TestKubeLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 21, 19, 30, 0, time.UTC)
	conntrack := `E1122 21:19:11.123456       1 server.go:560] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: permission denied"`
	loop := `[FATAL] plugin/loop: Loop (127.0.0.1:44333 -> :53) detected for zone ".", see https://coredns.io/plugins/loop#troubleshooting.`
	for name, c := range map[string]struct {
		of, text  string
		ago       time.Duration
		status    probe.Status
		signature string
	}{
		"recorded: conntrack":  {"kube-proxy", conntrack, time.Second, probe.Fail, faultConntrack},
		"recorded: loop":       {"coredns", ".:53\n" + loop, time.Second, probe.Fail, faultLoop},
		"a Corefile":           {"coredns", "maxprocs: Leaving GOMAXPROCS=2\n/etc/coredns/Corefile:3 - Error during parsing: Unknown directive 'proxy'", time.Second, probe.Fail, faultCorefile},
		"a Corefile's syntax":  {"coredns", "/etc/coredns/Corefile:2 - Syntax error: Unexpected token 'errors', expecting '}'", time.Second, probe.Fail, faultCorefile},
		"a plugin":             {"coredns", "plugin/forward: /etc/coredns/Corefile:3 - Error during parsing: Wrong argument count or unexpected line ending after '.'", time.Second, probe.Fail, faultCorefile},
		"a plugin it lacks":    {"coredns", "no action found for directive 'reload' with server type 'dns' (missing a plugin?)\nmaxprocs: Leaving GOMAXPROCS=2: CPU quota undefined", time.Second, probe.Fail, faultCorefile},
		"no Corefile":          {"coredns", "loading Caddyfile via flag: open /etc/coredns/Corefile: no such file or directory", time.Second, probe.Fail, faultCorefile},
		"Calico's controllers": {"calico-kube-controllers", "2026-11-22 21:19:11.123 [FATAL][1] kube-controllers/main.go 111: Failed to parse config", time.Second, probe.Fail, ""},
		"near: they go on":     {"calico-kube-controllers", "2026-11-22 21:19:11.123 [FATAL][1] kube-controllers/main.go 111: x\n2026-11-22 21:19:12.123 [INFO][1] kube-controllers/main.go 90: Loaded configuration", time.Second, probe.OK, ""},
		"Typha":                {"calico-typha", "2026-11-22 21:19:11.123 [FATAL][1] typha/daemon.go 166: Failed to load TLS certificate error=open /etc/typha/tls.crt: no such file or directory", time.Second, probe.Fail, ""},
		"no IPVS":              {"kube-proxy", `E1122 21:19:11.1       1 server.go:564] "Error running ProxyServer" err="can't use the IPVS proxier: ipvs not supported by the kernel"`, time.Second, probe.Fail, faultMode},
		"no API server":        {"kube-proxy", `E1122 21:19:11.1       1 run.go:74] "command failed" err="dial tcp 10.96.0.1:443: connect: connection refused"`, time.Second, probe.Fail, FaultNoAPI},
		"near: long ago":       {"kube-proxy", conntrack, time.Hour, probe.OK, ""},
		"near: started anew":   {"kube-proxy", conntrack + "\n" + `I1122 21:19:20.1       1 server.go:677] "Version info" version="v1.36.4"`, time.Second, probe.OK, ""},
		"near: a tenant's":     {"coredns", `[ERROR] plugin/errors: 2 [FATAL] plugin/loop: Loop (x) detected for zone. A: read udp: i/o timeout`, time.Second, probe.OK, ""},
		"near: of the other":   {"coredns", conntrack, time.Second, probe.OK, ""},
		"near: an error alone": {"kube-proxy", `E1122 21:19:11.1       1 proxier.go:1] "Failed to sync" err="nf_conntrack_max"`, time.Second, probe.OK, ""},
	} {
		var lines []podlog.Line
		for text := range strings.Lines(c.text) {
			lines = append(lines, podlog.Line{Time: now.Add(-c.ago), Text: strings.TrimSuffix(text, "\n")})
		}
		r := ended(c.of, lines, now)
		if r.Status != c.status || r.Facts.Str(FactSignature) != c.signature {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestKubeLogFiles reads the last two runs of a pod's container, and the log file of a kube-proxy without a pod.
func TestKubeLogFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	write("/var/log/pods/kube-system_coredns-x_1/coredns/1.log", at+" stdout F [FATAL] plugin/loop: Loop (127.0.0.1:1 -> :53) detected for zone \".\"\n")
	write("/var/log/pods/kube-system_coredns-x_1/coredns/2.log", at+" stdout F .:53\n")
	write("/var/log/kube-proxy.log", `E1122 21:19:11.1       1 server.go:560] "Error running ProxyServer" err="open nf_conntrack_max: permission denied token=abcdefgh"`+"\n")
	target := probe.Target{Kind: probe.KindLogs, Name: "coredns", Host: "coredns-x",
		Attrs: map[string]string{probe.AttrLogs: "kube-system_coredns-x_1"}}
	var got []probe.Result
	r := probe.Runner{Suite: []*probe.Check{KubeLog}, Host: &probe.Host{Root: root}}
	r.Run(t.Context(), probe.Plan{Checks: []string{KubeLog.ID}, Targets: []probe.Target{target}}, func(ev probe.Event) {
		if ev.Type == probe.EventResult {
			got = append(got, *ev.Result)
		}
	})
	checktest.Want(t, got, "coredns coredns-x", probe.Warn, "a new run has just started")
	checktest.Want(t, got, kubeProxyFile, probe.Fail, "nf_conntrack_max")
	for _, r := range got {
		if strings.Contains(r.Saw, "abcdefgh") {
			t.Errorf("a secret is shown: %s", r.Saw)
		}
	}
}
