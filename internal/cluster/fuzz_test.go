package cluster

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/calico-probe/calico-probe/probe"
)

// specsOf reads specs by name like the API, with numbers as int64; nil if the bytes are invalid.
func specsOf(b []byte) Specs {
	var out Specs
	if utiljson.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// fuzzedNodes returns two nodes, one with annotations from the fuzzer.
func fuzzedNodes(annotation string) []corev1.Node {
	return []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"rack": "1"}, Annotations: map[string]string{
			AnnotationIPv4: "10.0.0.1/24", AnnotationIPv6: "fd00::1/64"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "node-b", Annotations: map[string]string{
			AnnotationIPv4: annotation, AnnotationAS: annotation, AnnotationCluster: "1.0.0.1"}}},
	}
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
		s.Peering.Peers.Value, s.Peering.Configs.Value = specsOf(peers), specsOf(configs)
		for i := range s.Nodes {
			targets, _ := SessionTargets(s, &s.Nodes[i])
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
