package cluster

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/calico-probe/calico-probe/probe"
)

// specsOf reads specs by their names as the API gives them, numbers as int64; nil where the bytes are none.
func specsOf(b []byte) specs {
	var out specs
	if utiljson.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// fuzzedNodes are two nodes, of which one has annotations of its owner's choice.
func fuzzedNodes(annotation string) []corev1.Node {
	return []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"rack": "1"}, Annotations: map[string]string{
			annotationIPv4: "10.0.0.1/24", annotationIPv6: "fd00::1/64"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "node-b", Annotations: map[string]string{
			annotationIPv4: annotation, annotationAS: annotation, annotationCluster: "1.0.0.1"}}},
	}
}

// FuzzIPAM reads pools, blocks and settings of IPAM of any JSON: no count is negative, and each loan is of an address.
func FuzzIPAM(f *testing.F) {
	f.Add([]byte(`{"p":{"cidr":"10.244.0.0/16","blockSize":26,"nodeSelector":"all()"}}`),
		[]byte(`{"b":{"cidr":"10.244.0.0/26","affinity":"host:node-a","unallocated":[1,2,-1,70000],"allocations":[0,null,9],`+
			`"attributes":[{"secondary":{"node":"node-b","namespace":"default","pod":"web"}}]}}`),
		[]byte(`{"default":{"maxBlocksPerHost":1,"strictAffinity":true,"autoAllocateBlocks":false}}`))
	f.Add([]byte(`{"p":{"cidr":"fd00::/48","blockSize":-9223372036854775808}}`), []byte(`{"b":{"cidr":"::/0"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, pools, blocks, config []byte) {
		s := snapshot(fuzzedNodes("10.0.0.2/24")...)
		s.pools.Value = specsOf(pools)
		s.blocks.Value.specs, s.ipam.Value.config = specsOf(blocks), specsOf(config)["default"]
		for _, v6 := range []bool{false, true} {
			r, _ := roomFor(s, v6)
			for _, n := range []int{r.blocks, r.here, r.elsewhere, r.unclaimed, r.reserved, r.leaked, r.borrowed} {
				if n < 0 {
					t.Errorf("%+v", r)
				}
			}
			r.text("node-a")
		}
		for _, spec := range s.blocks.Value.specs {
			for _, l := range loansIn(spec) {
				if !l.addr.IsValid() {
					t.Errorf("%+v", l)
				}
			}
		}
	})
}

// FuzzBGP reads BGPPeers and BGPConfigurations of any JSON: each session has an address of a family that the node has.
func FuzzBGP(f *testing.F) {
	f.Add([]byte(`{"r":{"peerIP":"10.0.0.9:1790","asNumber":64512,"password":{"secretKeyRef":{}},"filters":["a",1]},`+
		`"n":{"nodeSelector":"rack == '1'","peerSelector":"all()"}}`),
		[]byte(`{"default":{"asNumber":"1.10","listenPort":1790,"nodeToNodeMeshEnabled":true},"node.node-a":{"listenPort":-1}}`),
		"10.0.0.2/24")
	f.Add([]byte(`{"x":{"node":"node-a","peerIP":"[::ffff:1.2.3.4]:0","reversePeering":"Manual"}}`), []byte(`{}`), "fd00::2")
	f.Fuzz(func(t *testing.T, peers, configs []byte, annotation string) {
		s := snapshot(fuzzedNodes(annotation)...)
		s.peering.peers.Value, s.peering.configs.Value = specsOf(peers), specsOf(configs)
		for i := range s.Nodes {
			targets, _ := sessionTargets(s, &s.Nodes[i])
			for _, target := range targets {
				if target.Kind != probe.KindSession || !target.Addr.IsValid() || target.Port < 0 {
					t.Errorf("%+v", target)
				}
			}
			if _, err := json.Marshal(targets); err != nil {
				t.Error(err)
			}
		}
	})
}
