package probe

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// meshPlan returns a plan for a cluster of so many nodes, each with a tunnel and two blocks.
func meshPlan(nodes int) Plan {
	p := Plan{Run: "0a1b2c3d", Node: "node-1", Checks: []string{"route-blocks"}, Gaps: map[string]string{"x": "$(HOME)"}}
	for i := range nodes {
		addr := netip.AddrFrom4([4]byte{10, 16, byte(i >> 8), byte(i)})
		name := fmt.Sprintf("ip-10-16-%d-%d.eu-central-1.compute.internal", i>>8, i&255)
		attrs := map[string]string{AttrDevice: "vxlan.calico", AttrOuter: addr.String(),
			AttrMAC: fmt.Sprintf("66:%02x:%02x:7f:1a:%02x", i&255, i>>8, i*7&255)}
		p.Targets = append(p.Targets, Target{Kind: KindTunnel, Name: name, Node: name, Addr: addr, Attrs: attrs})
		for j := range 2 {
			p.Targets = append(p.Targets, Target{Kind: KindBlock, Name: fmt.Sprintf("10.%d.%d.%d/26", 128+j, i>>8, i&255),
				Node: name, Addr: addr})
		}
	}
	return p
}

// TestPack checks that a plan arrives unchanged through the arguments of a program.
func TestPack(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{0, 3, 500, 5000} {
		want := meshPlan(nodes)
		args, err := want.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if nodes < 10 && (len(args) != 1 || args[0][0] != '{' || strings.Contains(args[0], "$")) {
			t.Errorf("%d nodes: %q", nodes, args)
		}
		got, err := UnpackPlan(args)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d nodes: %v, another plan came out", nodes, err)
		}
		if runtime.GOOS != "linux" {
			continue
		}
		if err := exec.Command("/bin/true", args...).Run(); err != nil {
			t.Errorf("%d nodes, %d arguments: %v", nodes, len(args), err)
		}
	}
	if _, err := meshPlan(60_000).Pack(); err == nil || !strings.Contains(err.Error(), "a pod's limit") {
		t.Errorf("a plan that no pod holds: %v", err)
	}
}

// TestUnpackBad rejects invalid plans, and one that exhausts memory.
func TestUnpackBad(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range maxPlan >> 16 {
		must.Get(z.Write(bytes.Repeat([]byte{' '}, 1<<17)))(t)
	}
	must.Do(t, z.Close())
	for _, text := range []string{"", "x", "{", "H4sIAAAA", base64.StdEncoding.EncodeToString(bomb.Bytes())} {
		if _, err := UnpackPlan([]string{text}); err == nil {
			t.Errorf("%.20q is a plan", text)
		}
	}
}
