package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// logged turns lines "SECONDS LEVEL TEXT" before now into Calico's format.
func logged(t *testing.T, now time.Time, lines ...string) []byte {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		var before int
		var level string
		must.Get(fmt.Sscan(l, &before, &level))(t)
		at := now.Add(-time.Duration(before) * time.Second)
		fmt.Fprintf(&b, "%s stdout F %s [%s][9] %s\n", at.Format(time.RFC3339Nano),
			at.Format("2006-01-02 15:04:05.000"), level, strings.SplitN(l, " ", 3)[2])
	}
	return []byte(b.String())
}

// TestErrorsOfRuns checks that a fault that only the previous run logged is history, and that one of the present run
// too is counted over both.
func TestErrorsOfRuns(t *testing.T) {
	t.Parallel()
	const bad = "WARNING felix/sync_client.go 258: Failed to connect to typha endpoint 10.88.0.12:5473.  Will try another if available... error=x509: certificate has expired"
	const well = "30 INFO felix/x.go 1: fine"
	now := time.Now()
	for name, c := range map[string]struct {
		before, present []string
		status          probe.Status
		history         bool
	}{
		"mended, and started again":         {[]string{"90 " + bad, "80 " + bad}, []string{well}, probe.Info, true},
		"near: the present run says so too": {[]string{"90 " + bad, "80 " + bad}, []string{well, "20 " + bad}, probe.Warn, false},
		"near: it waits to be started":      {nil, []string{"90 " + bad, "80 " + bad}, probe.Warn, false},
	} {
		root := t.TempDir()
		folder := filepath.Join(root, "var/log/pods/kube-system_calico-node-x_uid/calico-node")
		must.Do(t, os.MkdirAll(folder, 0o700))
		for i, lines := range [][]string{c.before, c.present} {
			file := filepath.Join(folder, fmt.Sprintf("%d.log", i))
			must.Do(t, os.WriteFile(file, logged(t, now, lines...), 0o600))
		}
		got := checktest.Run(t, CalicoErrors, &probe.Host{Root: root},
			probe.Target{Kind: probe.KindCalico, Name: "calico-node",
				Attrs: map[string]string{probe.AttrLogs: "kube-system_calico-node-x_uid"}})
		at := slices.IndexFunc(got, func(r probe.Result) bool {
			return r.Facts.Str(FactSignature) == faultTyphaCertificate
		})
		if at < 0 || got[at].Status != c.status || (got[at].Facts[probe.FactHistory] == true) != c.history ||
			strings.HasPrefix(got[at].Saw, "history: ") != c.history {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStandingErrors has lines in the format of v3.32.1's sources, and similar ones.
func TestStandingErrors(t *testing.T) {
	t.Parallel()
	const (
		dial    = "WARNING felix/sync_client.go 258: Failed to connect to typha endpoint 10.88.0.12:5473.  Will try another if available... error="
		restore = "WARNING felix/table.go 1460: Failed to execute ip(6)tables-restore command error=exit status 2 errorOutput="
		missing = "\"Warning: Extension set revision 0 not supported, missing kernel module?\\niptables-restore: line 4 failed\\n\""
		legacy  = "\"iptables-restore v1.8.8 (legacy): iptables-restore: unable to initialize table 'raw'\\n\\nError occurred at line: 1\\n\""
		ipset   = `WARNING felix/ipsets.go 864: Failed to complete ipset restore, IP sets may be out-of-sync. input="create x hash:net\n" processErr=exit status 1 stderr="ipset v7.11: Kernel error received: set type not supported\n"`
		tunnel  = "WARNING felix/route_mgr.go 519: Failed to configure tunnel device, retrying... error=operation not supported ipVersion=0x4 tunnelDevice=\"vxlan.calico\""
		token   = `ERROR node-services/token_watch.go 128: Unable to create token for CNI kubeconfig error=serviceaccounts "calico-cni-plugin" not found`
		address = "ERROR tunnel-ip-allocator/allocateip.go 502: Unable to autoassign an IPv4 address error=Assigned 0 out of 1 requested IPv4 addresses; No more free affine blocks and strict affinity enabled type=\"vxlanTunnelAddress\""
		dropped = "ERROR felix/sync_client.go 432: Failed to read from server error=EOF"
		hello   = "INFO felix/sync_client.go 485: ServerHello message received"
	)
	const tables = `ERROR felix/table.go 946: iptables-save failed because there are incompatible nft rules in the table.  ` +
		`Remove the nft rules to continue. ipVersion=0x4 table="nat"`
	for name, c := range map[string]struct {
		lines []string
		want  string // the signatures, with their modules
	}{
		"Typha's is of another CA": {[]string{"60 " + dial + "tls: failed to verify certificate: x509: certificate signed by unknown authority"}, faultTyphaCertificate},
		"Typha's has another name": {[]string{"60 " + dial + "peer certificate does not have required CN"}, faultTyphaCertificate},
		"Typha refuses ours":       {[]string{"60 ERROR confd/sync_client.go 432: Failed to read from server error=remote error: tls: bad certificate"}, faultTyphaCertificate},
		"no key":                   {[]string{"60 ERROR felix/sync_client.go 310: Failed to load certificate and key error=open /node-certs/tls.crt: no such file or directory"}, faultTyphaCertificate},
		"near: greeted since":      {[]string{"60 " + dial + "x509: certificate has expired or is not yet valid", "9 " + hello}, ""},
		"near: not reached":        {[]string{"60 " + dial + "dial tcp 10.88.0.12:5473: connect: connection refused"}, ""},
		"near: long ago":           {[]string{"6000 " + dial + "x509: certificate has expired"}, ""},
		"an old Typha":             {[]string{"60 ERROR felix/sync_client.go 505: We require SyncerType bgp but Typha server doesn't support it."}, faultTyphaOld},
		"Typha refuses a client": {[]string{`60 INFO typha/sync_server.go 889: Failed to read from client client=10.88.0.11:40000 connID=0x1 error=tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			`50 INFO typha/sync_server.go 889: Failed to read from client client=10.88.0.11:40001 connID=0x2 error=remote error: tls: bad certificate`}, faultTyphaRefuses},
		"near: a client that went away": {[]string{"60 INFO typha/sync_server.go 889: Failed to read from client error=read tcp 10.88.0.12:5473: connection reset by peer",
			"50 INFO typha/sync_server.go 889: Failed to read from client error=read tcp 10.88.0.12:5473: connection reset by peer"}, ""},
		"slow clients": {[]string{"60 WARNING typha/sync_server.go 1182: Client fell behind. Disconnecting.", "50 WARNING typha/sync_server.go 1182: Client fell behind. Disconnecting.", "40 WARNING typha/sync_server.go 1182: Client fell behind. Disconnecting."}, faultTyphaSheds},
		"dropped again and again": {[]string{"300 " + dropped, "200 " + dropped, "100 " + dropped, "9 " + dropped},
			faultTyphaDrops},
		"near: each, once": {[]string{"300 " + dropped,
			"200 " + strings.Replace(dropped, "felix", "confd", 1),
			"100 " + dropped, "9 " + strings.Replace(dropped, "felix", "node-services", 1)}, ""},
		"near: dropped at once": {[]string{"12 " + dropped, "11 " + dropped, "10 " + dropped, "9 " + dropped}, ""},
		"near: over many hours": {[]string{"9000 " + dropped, "8000 " + dropped, "7000 " + dropped,
			"9 " + dropped}, ""},
		"near: Typha was started anew": {[]string{"60 ERROR felix/sync_client.go 432: Failed to read from server error=EOF"}, ""},
		"xt_set": {[]string{"60 " + restore + missing, "50 " + restore + missing}, faultKernelLacks +
			" xt_set"},
		"a table": {[]string{"60 " + restore + legacy, "50 " + restore + legacy}, faultKernelLacks +
			" iptable_raw"},
		"near: once":                    {[]string{"60 " + restore + missing}, ""},
		"near: another reason":          {[]string{"60 " + restore + `"Another app is currently holding the xtables lock"`, "50 " + restore + `"line 3 failed"`}, ""},
		"near: in what was written":     {[]string{"60 " + restore + `"line 3 failed" input="# Extension set revision 0 not supported, missing kernel module?" table="raw"`, "50 " + restore + `"line 3 failed" input="Extension set revision 0 not supported, missing kernel module?" table="raw"`}, ""},
		"a type of sets":                {[]string{"60 " + ipset, "50 " + ipset}, faultKernelLacks + " ip_set_hash_net"},
		"VXLAN":                         {[]string{"60 " + tunnel, "50 " + tunnel}, faultKernelLacks + " vxlan"},
		"near: a tunnel in the way":     {[]string{"60 WARNING felix/route_mgr.go 519: Failed to configure tunnel device, retrying... error=file exists tunnelDevice=\"vxlan.calico\"", "50 WARNING felix/route_mgr.go 519: Failed to configure tunnel device, retrying... error=file exists tunnelDevice=\"vxlan.calico\""}, ""},
		"rules of nft's own":            {[]string{"60 " + tables, "50 " + tables}, faultTables},
		"near: they were there once":    {[]string{"60 " + tables}, ""},
		"WireGuard":                     {[]string{"6000 INFO felix/wireguard.go 681: Wireguard is not supported"}, faultKernelLacks + " wireguard"},
		"the token":                     {[]string{"60 " + token, "50 " + token}, faultCNIToken},
		"near: a token since":           {[]string{"60 " + token, "50 " + token, "40 INFO node-services/token_watch.go 513: Wrote updated CNI kubeconfig file."}, ""},
		"no address":                    {[]string{"60 " + address}, FaultTunnelAddress},
		"near: the API was away":        {[]string{"60 FATAL tunnel-ip-allocator/main.go 205: Tunnel IP allocator failed error=failed to fetch node resource 'a': dial tcp: i/o timeout"}, ""},
		"eBPF is off":                   {[]string{"6000 ERROR felix/daemon.go 376: BPF dataplane mode enabled but not supported by the kernel.  Disabling BPF mode. error=kernel is too old (have: 4.19.0 but want at least: 5.10.0)"}, faultBPFOff},
		"near: eBPF is off, begun anew": {[]string{"6000 ERROR felix/daemon.go 376: BPF dataplane mode enabled but not supported by the kernel.", "5000 INFO felix/daemon.go 150: Felix starting up"}, ""},
		"no maps":                       {[]string{"60 PANIC felix/int_dataplane.go 953: error creating bpf maps error=operation not permitted"}, faultBPFFailed},
		"the verifier":                  {[]string{"60 ERROR felix/bpf_ep_mgr.go 4257: Failed to load BPF policy program error=permission denied"}, faultBPFVerifier},
		"near: a program is split":      {[]string{"60 ERROR felix/bpf_ep_mgr.go 4257: Failed to load BPF policy program error=numerical result out of range"}, ""},
		"near: a tenant's":              {[]string{`60 ERROR felix/watchercache.go 5: Bad annotation value="daemon.go 1: BPF dataplane mode enabled but not supported by the kernel"`}, ""},
	} {
		now := time.Now()
		var got []string
		lines := podlog.Parse(logged(t, now, c.lines...))
		for _, e := range repeatedErrors(lines, slices.Concat(calicoRepeats, typhaRepeats), now) {
			got = append(got, e.on())
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestBIRDRejects has lines as BIRD itself writes them, without time and level.
func TestBIRDRejects(t *testing.T) {
	t.Parallel()
	const refuses = "bird: /etc/calico/confd/config/bird_ipam.cfg:22:20 You may set only variables"
	for name, c := range map[string]struct {
		lines []string
		on    string
	}{
		"every second":          {[]string{refuses, refuses}, "bird-config bird"},
		"of IPv6":               {[]string{"bird6: /etc/calico/confd/config/bird6.cfg:40:9 syntax error"}, "bird-config bird6"},
		"near: it starts since": {[]string{refuses, "bird: Initializing", "bird: Started"}, ""},
		"near: loaded since":    {[]string{refuses, "bird: Reconfiguring", "bird: Reconfigured"}, ""},
		"the other one starts":  {[]string{refuses, "bird6: Started"}, "bird-config bird"},
		"near: no file yet":     {[]string{"bird: Unable to open configuration file /etc/calico/confd/config/bird.cfg: No such file or directory"}, ""},
		"near: a peer":          {[]string{"bird: Mesh_10_88_0_11: Received: Peer de-configured"}, ""},
	} {
		now := time.Now()
		var lines []podlog.Line
		for _, text := range c.lines {
			lines = append(lines, podlog.Line{Time: now.Add(-time.Minute), Text: text})
		}
		found := repeatedErrors(lines, calicoRepeats, now)
		if len(found) != min(1, len(c.on)) {
			t.Errorf("%s: %d of them", name, len(found))
			continue
		}
		if len(found) == 1 && found[0].on() != c.on {
			t.Errorf("%s: on %q, want %q", name, found[0].on(), c.on)
		}
	}
	found := repeatedErrors([]podlog.Line{{Time: time.Now(), Text: refuses}}, calicoRepeats, time.Now())
	facts := found[0].result(time.Now()).Facts
	if facts[probe.FactFile] != "/etc/calico/confd/config/bird_ipam.cfg" || facts[factAtLine] != 22 || facts[probe.FactFamily] != 4 {
		t.Errorf("facts: %v", facts)
	}
}

// TestCalicoErrors reads the logs of a pod, and checks whether the module was loaded since.
func TestCalicoErrors(t *testing.T) {
	t.Parallel()
	const pod = "kube-system_calico-node-a_1"
	now := time.Now()
	const line = "WARNING felix/route_mgr.go 519: Failed to configure tunnel device, retrying... error=operation not supported tunnelDevice=\"vxlan.calico\""
	for name, c := range map[string]struct {
		modules string
		runs    [][]string
		want    probe.Status
		saw     string
	}{
		"missing":             {"ip_tables 1 0 - Live 0x0\n", [][]string{{"60 " + line, "50 " + line}}, probe.Warn, `tunnelDevice="vxlan.calico", 50s ago`},
		"near: loaded by now": {"vxlan 1 0 - Live 0x0\n", [][]string{{"60 " + line, "50 " + line}}, probe.Info, "loaded now"},
		"in the run before":   {"", [][]string{{"60 " + line, "50 " + line}, {"2 INFO felix/daemon.go 1: Felix starting up"}}, probe.Info, "history: in the previous run, logged 2 times"},
		"well":                {"", [][]string{{"2 INFO felix/daemon.go 1: Felix starting up"}}, probe.OK, "no known error in the last 1 lines"},
		"no log":              {"", nil, probe.Skip, "no log"},
	} {
		root := t.TempDir()
		files := map[string][]byte{"proc/modules": []byte(c.modules)}
		for i, lines := range c.runs {
			files[fmt.Sprintf("var/log/pods/%s/calico-node/%d.log", pod, i)] = logged(t, now, lines...)
		}
		for file, text := range files {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(root, file), text, 0o600))
		}
		h := &probe.Host{Root: root, Proc: filepath.Join(root, "proc")}
		got := checktest.Run(t, CalicoErrors, h, probe.Target{Kind: probe.KindCalico,
			Attrs: map[string]string{probe.AttrLogs: pod}})
		if len(got) != 1 || got[0].Status != c.want || !strings.Contains(got[0].Saw, c.saw) {
			t.Errorf("%s: %v, want %s %q", name, got, c.want, c.saw)
		}
	}
}
