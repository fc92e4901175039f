//go:build e2e

package ask

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealCNIPlace expects the checks to read the CNI files where containerd reads them.
func TestRealCNIPlace(t *testing.T) {
	h := checktest.Node(t, map[string]string{
		"own/net.d/10-calico.conflist": `{"plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}}]}`,
		"own/bin/calico":               "#!", "own/bin/loopback": "#!", "opt/cni/bin/x": "#!"})
	checktest.RealCRI(t, runnable(runtime.ContainerdHealth), h, "[plugins.'io.containerd.cri.v1.runtime'.cni]\nconf_dir = '/own/net.d'\nbin_dirs = ['/own/bin', '/opt/cni/bin']\n")
	checktest.Want(t, checktest.Run(t, runnable(cni.CNIConfig), h), "", probe.Fail,
		"/own/net.d/10-calico.conflist names plugins that are not in /own/bin, /opt/cni/bin: calico-ipam")
	must.Do(t, os.WriteFile(h.Root+"/opt/cni/bin/calico-ipam", []byte("#!"), 0o755))
	checktest.Want(t, checktest.Run(t, runnable(cni.CNIConfig), h), "", probe.OK, "/own/net.d/10-calico.conflist is used")
	must.Do(t, os.Remove(h.Root+"/own/net.d/10-calico.conflist"))
	checktest.Want(t, checktest.Run(t, runnable(cni.CNIConfig), h), "", probe.Fail, "no network configuration in /own/net.d")
	must.Do(t, os.WriteFile(h.Root+"/own/net.d/calico-kubeconfig",
		[]byte(checktest.KubeconfigWith(checktest.Token(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)))),
		0o600))
	checktest.Want(t, checktest.Run(t, runnable(cni.CNIToken), h), "", probe.Fail, "expired 24h0m")
}

// pki writes a CA and certificates of it into a directory, as PEM.
func pki(t *testing.T, dir string, names map[string]time.Duration) {
	t.Helper()
	ca := checktest.Certificate(t, "ca", time.Now().Add(20*24*time.Hour))
	root := must.Get(x509.ParseCertificate(ca.Certificate[0]))(t)
	write := func(name, kind string, der []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600))
	}
	write("etcd-ca", "CERTIFICATE", ca.Certificate[0])
	for name, left := range names {
		key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		leaf := *root
		leaf.SerialNumber, leaf.Subject, leaf.IsCA = big.NewInt(2), pkix.Name{CommonName: name}, false
		leaf.NotAfter = time.Now().Add(left)
		leaf.NotBefore = leaf.NotAfter.Add(-366 * 24 * time.Hour)
		der := must.Get(x509.CreateCertificate(rand.Reader, &leaf, root, key.Public(), ca.PrivateKey))(t)
		private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
		write(name+"-cert", "CERTIFICATE", der)
		write(name+"-key", "PRIVATE KEY", private)
	}
}

// TestRealEtcd connects to an etcd that requires certificates: with a valid one, with none, and with an expired one,
// then while etcd is frozen, and after its death.
func TestRealEtcd(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up") {
		return
	}
	const files = "etc/cni/net.d/calico-tls"
	h := checktest.Node(t, map[string]string{files + "/x": "", "old/" + files + "/x": "", "none/x": ""})
	dir := filepath.Join(h.Root, files)
	const year = 365 * 24 * time.Hour
	pki(t, dir, map[string]time.Duration{"etcd": year, "server": year, "old": -time.Hour})
	url := "https://127.0.0.1:2379"
	etcd := exec.Command(checktest.Part(t, "bin/etcd"), "--name", "e", "--data-dir", filepath.Join(h.Root, "data"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
		"--initial-cluster", "e=http://127.0.0.1:2380",
		"--client-cert-auth", "--trusted-ca-file", dir+"/etcd-ca", "--cert-file", dir+"/server-cert", "--key-file",
		dir+"/server-key")
	log := must.Get(os.Create(filepath.Join(h.Root, "log")))(t)
	etcd.Stdout, etcd.Stderr = log, log
	must.Do(t, etcd.Start())
	t.Cleanup(func() {
		if output, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("etcd logged:\n%s", output)
		}
		_ = etcd.Process.Kill() // the test may have done so
		_ = etcd.Wait()
	})
	target := checktest.At(probe.KindDatastore, node.NameEtcd, "127.0.0.1")
	target.Port, target.Attrs = 2379, map[string]string{probe.AttrScheme: "https"}
	const name = "etcd 127.0.0.1:2379"
	ask := func(h *probe.Host) []probe.Result {
		return checktest.Run(t, runnable(datastore.DatastoreLatency), h, target)
	}
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(ask(h),
			func(r probe.Result) bool { return strings.Contains(r.Saw, "etcd reports that it is healthy") })
	})
	got := ask(h)
	checktest.Want(t, got, name, probe.OK, "median of 5", "etcd reports that it is healthy")
	checktest.Want(t, got, node.EtcdFiles+"etcd-cert", probe.OK, "is valid until")
	checktest.Want(t, checktest.Run(t, runnable(start.StartupBudget), h, target, checktest.Budget("60")), "estimate",
		probe.OK, "20 calls")

	checktest.Want(t, ask(&probe.Host{Root: h.Root + "/none"}), name, probe.OK,
		"requires a client certificate, which this probe cannot read")
	for from, to := range map[string]string{"old-cert": "etcd-cert", "old-key": "etcd-key", "etcd-ca": "etcd-ca"} {
		text := must.Get(os.ReadFile(filepath.Join(dir, from)))(t)
		must.Do(t, os.WriteFile(filepath.Join(h.Root, "old", files, to), text, 0o600))
	}
	got = ask(&probe.Host{Root: h.Root + "/old"})
	checktest.Want(t, got, name, probe.Fail, "etcd rejects the certificate")
	checktest.Want(t, got, node.EtcdFiles+"etcd-cert", probe.Fail, "expired")

	checktest.Freeze(t, etcd)
	checktest.Want(t, ask(h), name, probe.Fail, "no answer")
	checktest.Kill(t, etcd)
	checktest.Want(t, ask(h), name, probe.Fail, "refused")
}
