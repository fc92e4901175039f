package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cached requests a list from the API server's cache, which is cheap and works while etcd has no leader.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// A Survey is what the API said of the cluster as a whole, the same for each of its nodes.
type Survey struct {
	Nodes    []corev1.Node // all of them, by name
	calicoIn []string      // the namespaces in which Calico's own pods are looked for
	memo     *memo         // nil = what follows from it is worked out at each call

	ofNodes
	shared probed     // by the probes on all nodes (ReadShared)
	given  configMaps // that calico-node's environment is from, on whichever node

	installation
	resources
	serving
}

// ofNodes is what the API said of every node, where every node was read (readEach).
type ofNodes struct {
	leases Read[map[string]*coordinationv1.Lease]
	claims Read[map[string][]corev1.Pod] // pods that claim to be calico-node
	now    time.Time                     // by the API server's clock, when the leases were read
	read   time.Time                     // that moment by our own clock
}

// installation is what makes Calico's pods.
type installation struct {
	controllers   Read[[]corev1.Pod] // of calico-kube-controllers
	noControllers Read[string]       // why there is none, where a Deployment wants one
	sets          Read[[]calicoSet]  // read where a node has no pod of calico-node, else nil
}

// serving is what the cluster's Services lead to.
type serving struct {
	allServices Read[[]corev1.Service]
	stray       Read[[]strayEndpoints]
	api         Read[[]probe.Target] // the API server's Service and each endpoint
	dns         Read[clusterDNS]
	dnsServers  Read[dnsServers] // the pods of CoreDNS
	webhooks    Read[webhooks]
}

// ReadAll reads what the API says of a cluster and of each of its nodes, by a few lists however many there are. An
// error means that nothing useful could be read.
func (c *Client) ReadAll(ctx context.Context) (*Survey, error) { return patiently(ctx, c, c.readAll) }

func (c *Client) readAll(whole context.Context) (*Survey, error) {
	ctx, cancel := firstOf(whole)
	defer cancel()
	var all probe.Workers
	s, err := c.readEach(ctx, c.readShared)
	if err != nil {
		return nil, err
	}
	s.now, _ = c.clock.Now()
	s.read = time.Now()
	calico, everywhere := s.anyCalico()
	s.given = c.readConfigMaps(whole, calico)
	c.readAbsent(whole, &s.installation, !everywhere, &all)
	all.Wait()
	if as := c.asConfigured(environmentOf(calico, s.given)); as.groups[0].Group != groups[0].Group {
		as.readCalico(whole, &s.resources, &all)
		all.Wait()
	}
	return s, nil
}

// firstOf bounds what is read first: one list that hangs must not take the time of what is read after it.
func firstOf(whole context.Context) (context.Context, context.CancelFunc) {
	end, limited := whole.Deadline() // the caller's, where that is sooner
	if !limited {
		return context.WithCancel(whole)
	}
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
		of, _ := claimsOf(s.claims.Value[s.Nodes[i].Name], s.calicoIn)
		calico, everywhere = cmp.Or(calico, of.Value), everywhere && of.Value != nil
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
	out.services.Err = s.allServices.Err
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
	s.felix = Read[map[string]any]{felixSettings(s.felixConfigs.Value, s.Node), s.felixConfigs.Err}
	s.backend.Value, s.backend.Err = readBackend(s.Calico.Value, env)
	s.etcd.Value, s.etcd.Err = readEtcd(env)
}

// readShared starts reading what is the same for every node, beside the nodes.
func (c *Client) readShared(ctx context.Context, s *Survey, all *probe.Workers) {
	s.controllers.start(ctx, all, c.readControllers)
	c.readCalico(ctx, &s.resources, all)
	s.api.start(ctx, all, c.readAPI)
	s.dns.start(ctx, all, c.readDNS)
	s.dnsServers.start(ctx, all, c.readDNSServers)
	s.webhooks.start(ctx, all, c.readWebhooks)
	s.stray.start(ctx, all, func(ctx context.Context) ([]strayEndpoints, error) {
		if s.allServices.read(ctx, c.listServices); s.allServices.Err != nil {
			return nil, s.allServices.Err
		}
		return c.readStray(ctx, s.allServices.Value)
	})
}

// around sets the node of a snapshot, and its cluster.
func (s *Snapshot) around(node string, of *Survey) error {
	s.Survey, s.asRead = *of, of
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return s.Unknown(node)
	}
	s.Node = &s.Nodes[i]
	return nil
}

// readEach reads what there is of every node: the nodes, their leases and their calico-node pods. More is what to read
// beside that.
func (c *Client) readEach(ctx context.Context, more func(context.Context, *Survey, *probe.Workers)) (*Survey, error) {
	s := c.newSurvey()
	var nodes Read[[]corev1.Node]
	var all probe.Workers
	nodes.start(ctx, &all, c.readTrimmed)
	s.leases.start(ctx, &all, c.readLeases)
	s.claims.start(ctx, &all, c.readClaims)
	more(ctx, s, &all)
	all.Wait()
	s.Nodes = nodes.Value
	return s, nodes.Err
}

// readLeases lists the leases of all nodes, by name.
func (c *Client) readLeases(ctx context.Context) (map[string]*coordinationv1.Lease, error) {
	list, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, cached)
	if err != nil {
		return nil, err
	}
	out := map[string]*coordinationv1.Lease{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// readClaims lists the pods that claim to be calico-node, by node.
func (c *Client) readClaims(ctx context.Context) (out map[string][]corev1.Pod, err error) {
	err = inPages(ctx, c.kube.CoreV1().Pods(metav1.NamespaceAll), metav1.ListOptions{LabelSelector: CalicoPods},
		func() { out = map[string][]corev1.Pod{} },
		func(p *corev1.Pod) {
			p.ManagedFields = nil
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], *p)
		})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readTrimmed lists all nodes, by name, without the most of a node, for which nobody asks.
func (c *Client) readTrimmed(ctx context.Context) (out []corev1.Node, err error) {
	err = inPages(ctx, c.kube.CoreV1().Nodes(), metav1.ListOptions{}, func() { out = nil }, func(n *corev1.Node) {
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
	out := &Snapshot{Survey: *s, asRead: s, Now: now, Node: n, Calico: Read[*corev1.Pod]{Err: s.claims.Err},
		lease: Read[*coordinationv1.Lease]{s.leases.Value[n.Name], s.leases.Err}}
	if s.claims.Err == nil {
		out.Calico, out.ignored = claimsOf(s.claims.Value[n.Name], s.calicoIn)
	}
	if out.lease.Value == nil && s.leases.Err == nil {
		out.lease.Err = apierrors.NewNotFound(coordinationv1.Resource("leases"), n.Name)
	}
	return out
}
