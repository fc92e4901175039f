//go:build e2e

package checktest

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// MeshOf returns a BIRD configuration for one address and its peers, in the style of confd.
func MeshOf(own string, peers ...string) string {
	text := `
router id ` + own + `;
listen bgp address ` + own + `;
protocol kernel kernel1 { learn; persist; scan time 2; import all; export all; graceful restart; merge paths on; }
protocol device device1 { scan time 2; }
protocol direct direct1 { interface "eth0"; }
template bgp bgp_template { local as 64512; multihop; gateway recursive; import all; export all; source address ` + own + `; graceful restart; connect delay time 1; connect retry time 1; error wait time 1,2; }
`
	for _, p := range peers {
		text += "protocol bgp Mesh_" + strings.ReplaceAll(p, ".",
			"_") + " from bgp_template { neighbor " + p + " as 64512; }\n"
	}
	return text
}

// BirdIn starts BIRD 1.6 in this network namespace. Like calico-node's run script, it puts the socket and
// configuration below a node's root.
func BirdIn(t *testing.T, h *probe.Host, config string, args ...string) *exec.Cmd {
	t.Helper()
	return StartBIRD(t, "bird", h, config, args...)
}

func StartBIRD(t *testing.T, version string, h *probe.Host, config string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	for _, dir := range []string{filepath.Dir(file), filepath.Join(h.Root, "run/calico")} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(Part(t, version+"/usr/sbin/bird"),
		append([]string{"-f", "-s", filepath.Join(h.Root, "run/calico/bird.ctl"), "-c", file}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have killed it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("BIRD said:\n%s", &out)
		}
	})
	return cmd
}

// Established waits until bgp-session reports a session with the peer.
func Established(t *testing.T, bgpSession *probe.Check, h *probe.Host, peer string) {
	t.Helper()
	Eventually(t, func() bool {
		return slices.ContainsFunc(Run(t, bgpSession, h, Backend("bird"), Self("127.0.0.1")),
			func(r probe.Result) bool { return r.Target == peer && r.Status == probe.OK })
	})
}

// BlockOf returns a block that belongs to a node, or a borrowed address.
func BlockOf(cidr, node, addr string) probe.Target {
	return probe.Target{Kind: probe.KindBlock, Name: cidr, Node: node, Addr: netip.MustParseAddr(addr)}
}
