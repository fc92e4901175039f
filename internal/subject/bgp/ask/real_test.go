//go:build e2e

package ask

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealBGPPort expects a different result for each way in which a connection can fail.
func TestRealBGPPort(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
nft add table inet t
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.4 tcp dport 1790 drop
nft add rule inet t in ip daddr 127.0.0.7 tcp dport 1790 reject with icmp type host-prohibited
`) {
		return
	}
	backend := probe.Target{Kind: probe.KindBackend, Name: "bird", Port: 1790}
	h, node4 := checktest.Node(t, map[string]string{"run/x": ""}), checktest.Node(t, map[string]string{"run/calico/x": ""})
	checktest.Want(t, checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindNode, "node", "127.0.0.2")), "",
		probe.Skip,
		"the API configures no BGP session for this node")
	mesh := func(name, addr string) probe.Target { return checktest.Session("mesh", name, addr, 1790) }
	checktest.Want(t, checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "127.0.0.1"),
		mesh("dead", "127.0.0.3")),
		"port 1790 here", probe.Fail, "nothing listens")
	l := must.Get(net.Listen("tcp", "127.0.0.2:1790"))(t)
	defer l.Close()
	other := must.Get(net.Listen("tcp", "127.0.0.5:1791"))(t)
	defer other.Close()
	secret := mesh("secret", "127.0.0.4")
	secret.Attrs[probe.AttrPassword] = "true"
	if r := checktest.Want(t, checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "127.0.0.1"),
		secret), "secret 127.0.0.4",
		probe.Fail, "got no answer"); r.Facts[probe.FactPassword] != true {
		t.Errorf("%+v", r.Facts)
	}
	if r := checktest.Want(t, checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "127.0.0.1"),
		mesh("rejected", "127.0.0.7")), "rejected 127.0.0.7", probe.Fail, "failed: ",
		"prohibited"); r.Facts.Str(probe.FactReason) != "rejected" {
		t.Errorf("%+v", r.Facts)
	}
	got := checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "127.0.0.1"),
		mesh("good", "127.0.0.2"), mesh("dead", "127.0.0.3"), mesh("filtered", "127.0.0.4"),
		mesh("docker", "172.18.0.1"),
		checktest.Session("mesh", "own-port", "127.0.0.5", 1791), checktest.Session("global", "tor", "127.0.0.6", 1179))
	checktest.Want(t, got, "port 1790 here", probe.OK, "127.0.0.2:1790")
	checktest.Want(t, got, "good 127.0.0.2", probe.OK, "from 127.0.0.1 to port 1790")
	checktest.Want(t, got, "dead 127.0.0.3", probe.Fail, "refused")
	checktest.Want(t, got, "filtered 127.0.0.4", probe.Fail, "got no answer within ")
	checktest.Want(t, got, "docker 172.18.0.1", probe.Fail, "no")
	checktest.Want(t, got, "own-port 127.0.0.5", probe.OK, "to port 1791")
	checktest.Want(t, got, "tor 127.0.0.6", probe.Fail, "to port 1179 refused")

	// The peer with another port has connected to this node's port.
	here := must.Get(net.Listen("tcp", "127.0.0.1:1790"))(t)
	defer here.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.5")}}
	theirs := must.Get(d.Dial("tcp", "127.0.0.1:1790"))(t)
	defer theirs.Close()
	ours := must.Get(here.Accept())(t)
	defer ours.Close()
	got = checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "127.0.0.1"),
		checktest.Session("mesh", "own-port", "127.0.0.5", 1791))
	checktest.Want(t, got, "own-port 127.0.0.5", probe.OK, "the BGP session is up")

	// Without peers from the API, the check connects to those in BIRD's configuration.
	birdtest.Serve(t, filepath.Join(node4.Root, "run/calico/bird.ctl"), "../../../../probe/bird/testdata/bird-1.6.8-restarting.txt")
	got = nil
	r := probe.Runner{Suite: []*probe.Check{bgpPortCheck}, Host: node4}
	plan := probe.Plan{Checks: []string{bgpPortCheck.ID},
		Targets: []probe.Target{backend, checktest.At(probe.KindSelf, "self", "127.0.0.1")},
		Gaps:    map[string]string{probe.KindSession: "forbidden"}}
	r.Run(t.Context(), plan, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	if len(got) < 3 || !slices.ContainsFunc(got,
		func(r probe.Result) bool { return strings.HasSuffix(r.Target, " 127.0.0.3") && r.Status == probe.Fail }) {
		t.Errorf("by BIRD: %+v", got)
	}
	r.Host = h
	got = nil
	r.Run(t.Context(), plan, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	checktest.Want(t, got, "", probe.Unknown, "the targets are unknown: forbidden")

	got = checktest.Run(t, bgpPortCheck, h, backend, checktest.At(probe.KindSelf, "self", "10.99.99.99"),
		mesh("good", "127.0.0.2"))
	checktest.Want(t, got, "good 127.0.0.2", probe.Fail, "from 10.99.99.99", "on no interface of this node")
	checktest.Want(t, checktest.Run(t, bgpPortCheck, h, probe.Target{Kind: probe.KindBackend, Name: "vxlan"}), "",
		probe.Skip,
		"vxlan")
}
