package cluster

import (
	"context"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/probe"
)

// A Survey is what the API said of the cluster as a whole, the same for each of its nodes. A part that could not be
// read is nil and has its reason in the matching error.
type Survey struct {
	Nodes    []corev1.Node // all of them, by name
	nodesErr error
	calicoIn []string // the namespaces in which Calico's own pods are looked for
	// of every node, where every node was asked about (readEach)
	leases    map[string]*coordinationv1.Lease
	leasesErr error
	claims    map[string][]corev1.Pod // pods that claim to be calico-node
	claimsErr error

	felixConfigs    []unstructured.Unstructured // all there are
	felixConfigsErr error
	api             []probe.Target // the API server's service and each endpoint
	apiErr          error
	dns             []probe.Target // the cluster's DNS: its service and each endpoint
	dnsErr          error
	dnsService      *corev1.Service // its own, nil when there is none
	dnsServers      dnsServers      // the pods of CoreDNS
	controllers     []corev1.Pod    // of calico-kube-controllers
	controllersErr  error
	blocks          []block
	blockErr        error
	ipam            ipam
	policies        policies
	// HostEndpoints of all nodes
	hostEndpoints    []hostEndpoint
	hostEndpointsErr error
	pools            map[string]map[string]any // specs of the IP pools
	poolErr          error
	tunnelErr        error
	allServices      []corev1.Service // nil = they could not be read
	serviceErr       error
	stray            strayAll
	peering          peering
	peeringErr       error
	info             map[string]any // spec of ClusterInformation
	infoErr          error
	group            string // the API group that has it, "" = none
	migration        string // a DatastoreMigration and its phase, "" = none is known
	webhooks         webhooks
}

// readSurvey starts reading what is the same for every node.
func (c *Client) readSurvey(ctx context.Context, s *Survey, all *sync.WaitGroup) {
	all.Go(func() { s.Nodes, s.nodesErr = c.readNodes(ctx) })
	all.Go(func() { s.controllers, s.controllersErr = c.readControllers(ctx) })
	c.readCalico(ctx, s, all)
	all.Go(func() { s.api, s.apiErr = c.readAPI(ctx) })
	all.Go(func() { s.dns, s.dnsService, s.dnsErr = c.readDNS(ctx) })
	all.Go(func() { s.dnsServers = c.readDNSServers(ctx) })
	all.Go(func() { s.webhooks = c.readWebhooks(ctx) })
	all.Go(func() {
		if s.allServices, s.serviceErr = c.listServices(ctx); s.serviceErr == nil {
			s.stray.all, s.stray.err = c.readStray(ctx, s.allServices)
		} else {
			s.stray.err = s.serviceErr
		}
	})
}

// around sets the node of a snapshot, and its cluster.
func (s *Snapshot) around(node string, of *Survey) error {
	if of.nodesErr != nil {
		return of.nodesErr
	}
	s.Survey, s.asRead = *of, of
	s.Nodes = slices.Clone(of.Nodes) // forgetRegistered changes them
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return &UnknownNodeError{Name: node, Have: alike(s.Nodes, node)}
	}
	s.Node = &s.Nodes[i]
	return nil
}
