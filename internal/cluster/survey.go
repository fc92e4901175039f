package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A Survey is what the API said of the cluster as a whole, the same for each of its nodes. A part that could not be
// read is nil and has its reason in the matching error.
type Survey struct {
	Nodes    []corev1.Node // all of them, by name
	nodesErr error
	calicoIn []string // the namespaces in which Calico's own pods are looked for
	memo     *memo    // nil = what follows from it is worked out at each call
	// of every node, where every node was asked about (readEach)
	leases    map[string]*coordinationv1.Lease
	leasesErr error
	claims    map[string][]corev1.Pod // pods that claim to be calico-node
	claimsErr error
	now       time.Time // by the API server's clock, when the leases were read
	read      time.Time // that moment by our own clock
	shared    shared
	given     configMaps // that calico-node's environment is from, on whichever node

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
	// why no calico-kube-controllers is there, where a Deployment wants one
	noControllers    string
	noControllersErr error
	sets             []appsv1.DaemonSet // those of calico-node, where a node has no pod of it
	refused          []probe.Statement  // what the API server answered each that wanted to make a pod last
	setsRead         bool               // they were asked for
	setsErr          error
	blocks           []block
	blockErr         error
	ipam             ipam
	policies         policies
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

// ReadAll reads what the API says of a cluster and of each of its nodes, by a few lists however many there are. An
// error means that nothing useful could be read.
func (c *Client) ReadAll(ctx context.Context) (*Survey, error) { return patiently(ctx, c, c.readAll) }

func (c *Client) readAll(ctx context.Context, limit time.Duration) (*Survey, error) {
	whole, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, cancelFirst := firstOf(whole)
	defer cancelFirst()
	s := c.newSurvey()
	var all parts
	c.readEach(ctx, s, &all)
	c.readShared(ctx, s, &all)
	all.Wait()
	if s.nodesErr != nil {
		return nil, s.nodesErr
	}
	s.now, _ = c.clock.Now()
	s.read = time.Now()
	calico, everywhere := s.anyCalico()
	s.given = c.readConfigMaps(whole, calico)
	all.read(&s.noControllersErr, func() { s.noControllers, s.noControllersErr = c.whyNoControllers(whole, s) })
	if !everywhere {
		s.setsRead = true
		all.read(&s.setsErr, func() { s.sets, s.refused, s.setsErr = c.readSets(whole) })
	}
	all.Wait()
	if as := c.asConfigured(environmentOf(calico, s.given)); as.groups[0].Group != groups[0].Group {
		as.readCalico(whole, s, &all)
		all.Wait()
	}
	return s, nil
}

// firstOf bounds what is read first: one list that hangs must not take the time of what is read after it.
func firstOf(whole context.Context) (context.Context, context.CancelFunc) {
	end, _ := whole.Deadline() // the caller's, where that is sooner
	return context.WithTimeout(whole, time.Duration(firstShare*float64(time.Until(end))))
}

// newSurvey is one of which nothing is read yet.
func (c *Client) newSurvey() *Survey {
	s := &Survey{calicoIn: c.calicoIn}
	s.memo = newMemo(s)
	return s
}

// anyCalico is a verified calico-node pod of whichever node, nil = there is none, and whether each node has one. They
// are made by one DaemonSet, so their environments come from the same ConfigMaps.
func (s *Survey) anyCalico() (calico *corev1.Pod, everywhere bool) {
	everywhere = true
	for i := range s.Nodes {
		of := claimsOf(s.claims[s.Nodes[i].Name], s.calicoIn)
		calico, everywhere = cmp.Or(calico, of.pod), everywhere && of.pod != nil
	}
	return calico, everywhere
}

// SurveyChecks are the IDs of those of Checks that Of's snapshots answer.
func SurveyChecks() []string {
	return []string{
		facts.CheckNodeReady, facts.CheckNodeLease, facts.CheckNodeTaints, facts.CheckServiceClaims,
		facts.CheckServiceEndpoints, facts.CheckCalicoKind, facts.CheckCalicoPod, facts.CheckCalicoBudget,
		facts.CheckControllers, facts.CheckIPRegistered, facts.CheckHostEndpoints, facts.CheckDatastoreReady,
		facts.CheckRouteMakers, facts.CheckBGPPeering, facts.CheckIPPools, facts.CheckWebhooks, facts.CheckTunnelSettings,
	}
}

// Of is the snapshot around one of the nodes of a Survey by ReadAll. What has to be read of a node alone is not in it:
// it answers SurveyChecks.
func (s *Survey) Of(n *corev1.Node) *Snapshot {
	out := s.of(n, s.now)
	out.Read, out.together = s.read, true
	out.configMaps = s.given
	out.configured(out.environment())
	out.hideEtcd()
	out.forgetRegistered()
	return out
}

// Unknown says that the cluster has no node of that name.
func (s *Survey) Unknown(name string) error {
	return &UnknownNodeError{Name: name, Have: alike(s.Nodes, name)}
}

// configured sets what follows from calico-node's environment and from Felix's settings.
func (s *Snapshot) configured(env environment) {
	s.felix, s.felixErr = felixSettings(s.felixConfigs, s.Node), s.felixConfigsErr
	s.backend, s.backendErr = readBackend(s.Calico, env)
	s.etcd, s.etcdErr = readEtcd(env)
}

// readShared starts reading what is the same for every node, beside the nodes.
func (c *Client) readShared(ctx context.Context, s *Survey, all *parts) {
	all.read(&s.controllersErr, func() { s.controllers, s.controllersErr = c.readControllers(ctx) })
	c.readCalico(ctx, s, all)
	all.read(&s.apiErr, func() { s.api, s.apiErr = c.readAPI(ctx) })
	all.read(&s.dnsErr, func() { s.dns, s.dnsService, s.dnsErr = c.readDNS(ctx) })
	all.read(&s.dnsServers.rights.err, func() { s.dnsServers = c.readDNSServers(ctx) })
	all.read(&s.webhooks.err, func() { s.webhooks = c.readWebhooks(ctx) })
	all.read(&s.stray.err, func() {
		s.serviceErr = probe.Recovered(func() (err error) { s.allServices, err = c.listServices(ctx); return err })
		if s.serviceErr == nil {
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
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return s.Unknown(node)
	}
	s.Node = &s.Nodes[i]
	return nil
}

// readEach starts reading what there is of every node: the nodes, their leases and their calico-node pods.
func (c *Client) readEach(ctx context.Context, s *Survey, all *parts) {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	all.read(&s.nodesErr, func() { s.Nodes, s.nodesErr = c.readTrimmed(ctx) })
	all.read(&s.leasesErr, func() {
		list, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, cached)
		if s.leasesErr = err; err != nil {
			return
		}
		leases := map[string]*coordinationv1.Lease{}
		for i := range list.Items {
			leases[list.Items[i].Name] = &list.Items[i]
		}
		s.leases = leases
	})
	all.read(&s.claimsErr, func() {
		pods := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		}
		var claims map[string][]corev1.Pod
		s.claimsErr = inPages(ctx, metav1.ListOptions{LabelSelector: CalicoPods}, pods,
			func() { claims = map[string][]corev1.Pod{} },
			func(p *corev1.Pod) {
				p.ManagedFields = nil
				claims[p.Spec.NodeName] = append(claims[p.Spec.NodeName], *p)
			})
		if s.claimsErr == nil {
			s.claims = claims
		}
	})
}

// readTrimmed lists all nodes, by name, without the most of a node, for which nobody asks.
func (c *Client) readTrimmed(ctx context.Context) (out []corev1.Node, err error) {
	nodes := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.kube.CoreV1().Nodes().List(ctx, o)
	}
	err = inPages(ctx, metav1.ListOptions{}, nodes, func() { out = nil }, func(n *corev1.Node) {
		n.Status.Images, n.Status.VolumesAttached, n.Status.VolumesInUse = nil, nil, nil
		out = append(out, *n)
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	slices.SortFunc(out, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// of is the snapshot around one of the nodes that what was read of each node makes, at a time by the API server's
// clock.
func (s *Survey) of(n *corev1.Node, now time.Time) *Snapshot {
	out := &Snapshot{Survey: *s, asRead: s, Now: now, Node: n, Lease: s.leases[n.Name], LeaseErr: s.leasesErr,
		CalicoErr: s.claimsErr}
	if s.claimsErr == nil {
		of := claimsOf(s.claims[n.Name], s.calicoIn)
		out.Calico, out.ignored, out.CalicoErr = of.pod, of.ignored, of.err
	}
	if out.Lease == nil && s.leasesErr == nil {
		leases := schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
		out.LeaseErr = apierrors.NewNotFound(leases, n.Name)
	}
	return out
}
