package logs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// TestKubeComplaints has complaints of running kube-proxy and CoreDNS, and complaints that are over or are a client's.
func TestKubeComplaints(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	klog := func(ago time.Duration, text string) string {
		return "E" + now.Add(-ago).Format("0102 15:04:05.000000") + "       1 " + text + "\n"
	}
	const dead = `reflector.go:205] "Failed to watch" err="failed to list *v1.Node: Get \"https://10.88.0.99:6443/api/v1/nodes?limit=500\": dial tcp 10.88.0.99:6443: connect: no route to host" logger="UnhandledError" type="*v1.Node"`
	const old = `reflector.go:307] k8s.io/client-go/informers/factory.go:135: Failed to watch *v1.Service: Get https://192.168.205.60:6443/api/v1/services?watch=true: dial tcp 192.168.205.60:6443: connect: connection refused`
	const denied = `reflector.go:205] "Failed to watch" err="failed to list *v1.Node: nodes \"node-a\" is forbidden: User \"system:serviceaccount:kube-system:kube-proxy\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"`
	const ca = `reflector.go:205] "Failed to watch" err="failed to list *v1.Service: Get \"https://10.88.0.1:6443/api/v1/services\": tls: failed to verify certificate: x509: certificate signed by unknown authority"`
	const other = `node.go:122] "Timed out waiting for node to exist" node="node-x"`
	dns := func(ago time.Duration, text string) string {
		return now.Add(-ago).Format(time.RFC3339Nano) + " stdout F " + text + "\n"
	}
	const upstream = `[ERROR] plugin/errors: 2 example.com. A: read udp 10.244.0.3:41345->10.88.0.99:53: i/o timeout`
	for name, c := range map[string]struct {
		of, log                string
		status                 probe.Status
		signature, server, may string
	}{
		"a dead address": {"kube-proxy", klog(90*time.Second, dead) + klog(30*time.Second, dead),
			probe.Warn, FaultNoAPI, "10.88.0.99:6443", ""},
		"of an old version": {"kube-proxy", klog(90*time.Second, old) + klog(0, old),
			probe.Warn, FaultNoAPI, "192.168.205.60:6443", ""},
		"forbidden": {"kube-proxy", klog(90*time.Second, denied) + klog(0, denied),
			probe.Warn, FaultForbidden, "", "list nodes"},
		"another authority": {"kube-proxy", klog(90*time.Second, ca) + klog(0, ca),
			probe.Warn, FaultCertificate, "10.88.0.1:6443", ""},
		"another node's name": {"kube-proxy", klog(time.Hour, other) + klog(0, `server.go:1] "Using nftables Proxier"`),
			probe.Warn, faultNodeNotFound, "", ""},
		"an upstream": {"coredns", dns(time.Minute, upstream) + dns(0, upstream),
			probe.Info, FaultUpstream, "10.88.0.99:53", ""},
		"near: just restarted": {"kube-proxy", klog(20*time.Second, old) + klog(0, old),
			probe.Info, FaultNoAPI, "192.168.205.60:6443", ""},
		"near: past": {"kube-proxy", klog(20*time.Minute, old) + klog(10*time.Minute, old) + klog(0, `x.go:1] "Other"`),
			probe.OK, "", "", ""},
		"near: two of one hour": {"kube-proxy", klog(40*time.Minute, old) + klog(0, old),
			probe.Info, FaultNoAPI, "192.168.205.60:6443", ""},
		"near: found later": {"kube-proxy", klog(time.Minute, other) + klog(0, `server.go:1] "Successfully retrieved NodeIPs" NodeIPs=["10.88.0.11"]`),
			probe.OK, "", "", ""},
		"near: a client's name": {"coredns", dns(time.Minute, `[ERROR] plugin/errors: 3 read udp a->10.88.0.99:53: i/o timeout`) + dns(0, `[INFO] x`),
			probe.OK, "", "", ""},
		"near: of the other": {"coredns", klog(time.Minute, dead) + klog(0, dead),
			probe.OK, "", "", ""},
	} {
		r := presentRun(c.of, timed(podlog.Parse([]byte(c.log)), now), now)
		if r.Status != c.status || r.Facts.Str(FactSignature) != c.signature || r.Facts.Str(FactOfServer) != c.server ||
			r.Facts.Str(factMay) != c.may {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestKubeProxyEndings has the last lines of kube-proxy, and one that is not the last.
func TestKubeProxyEndings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	for text, signature := range map[string]string{
		`"Error running ProxyServer" err="can't use the IPVS proxier: Ipvs not supported"`:                                                                                         faultMode,
		`"Error running ProxyServer" err="unable to create proxier: unable to create ipv4 proxier: could not run nftables command: Operation not supported"`:                       faultMode,
		`"Error running ProxyServer" err="timeout waiting for node \"x\" to exist"`:                                                                                                faultNodeNotFound,
		`"command failed" err="failed complete: yaml: unmarshal errors"`:                                                                                                           FaultBadSetting,
		`"Error running ProxyServer" err="could not set conntrack parameters from kube-proxy configuration: open /proc/sys/net/netfilter/nf_conntrack_max: read-only file system"`: faultConntrack,
		`"Error running ProxyServer" err="content of the proxy server's configuration file was updated"`:                                                                           "",
	} {
		r := ended(kubeProxy, []podlog.Line{{Time: now, Text: "E1123 15:00:00.000000       1 server.go:1] " + text}}, now)
		if r.Facts.Str(FactSignature) != signature || (r.Status == probe.OK) != strings.Contains(text, "was updated") {
			t.Errorf("%s: %v", text, r)
		}
	}
}

// TestKubeProxyUnit reads a kube-proxy that is a systemd service: the recorded kubelet's last line, under its name.
func TestKubeProxyUnit(t *testing.T) {
	t.Parallel()
	text := checktest.RecordedJournal(t, "../journal/testdata", "regular")
	const unit = "_SYSTEMD_UNIT=kube-proxy.service"
	at := bytes.Index(text, []byte("_SYSTEMD_UNIT=kubelet.service"))
	copy(text[at:], unit)
	binary.LittleEndian.PutUint64(text[at-64+8:], uint64(64+len(unit))) // of the object before it
	root := t.TempDir()
	folder := filepath.Join(root, "var/log/journal/0123456789abcdef0123456789abcdef")
	err := os.MkdirAll(folder, 0o700)
	if err = errors.Join(err, os.WriteFile(filepath.Join(folder, "system.journal"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for ago, wanted := range map[time.Duration]int{10 * time.Second: 1, time.Hour: 0} {
		r, on, ok := hostProxyLog(t.Context(), &probe.Host{Root: root}, time.Unix(1795348808, 0).Add(ago))
		if ok != (wanted > 0) || ok && (r.Status != probe.Fail || on != kubeProxyUnit) {
			t.Errorf("%v later: %v %s %v", ago, r, on, ok)
		}
	}
}

// TestLastRuns checks that the end of the previous run is reported if the present one just began. That is the usual
// state of a kube-proxy under systemd that exits at every start.
func TestLastRuns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 23, 14, 0, 0, time.UTC)
	line := func(ago time.Duration, text string) podlog.Line { return podlog.Line{Time: now.Add(-ago), Text: text} }
	end := line(4*time.Second, `E1123 23:13:56.000000       1 server.go:136] "Error running ProxyServer" err="can't use the IPVS proxier: ipvs not supported"`)
	began := line(2*time.Second, `I1123 23:13:58.000000       1 server.go:215] "Using kubeconfig"`)
	long := line(2*time.Minute, `I1123 23:12:00.000000       1 server.go:215] "Using kubeconfig"`)
	for name, c := range map[string]struct {
		runs [][]podlog.Line
		want probe.Status
	}{
		"just begun":            {[][]podlog.Line{{end}, {began}}, probe.Warn},
		"ended itself":          {[][]podlog.Line{{began}, {end}}, probe.Fail},
		"goes on for minutes":   {[][]podlog.Line{{end}, {long, began}}, probe.OK},
		"the one before was OK": {[][]podlog.Line{{long}, {began}}, probe.OK},
		"the first":             {[][]podlog.Line{{began}}, probe.OK},
	} {
		r := lastRuns(kubeProxy, c.runs, now)
		if r.Status != c.want || r.Status != probe.OK && r.Facts.Str(FactSignature) != faultMode {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
