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

// ReadAll reads the API's data about a cluster and all its nodes, with a fixed number of list calls. An error means
// that no useful data could be read.
func (c *Client) ReadAll(ctx context.Context) (*Survey, error) { return patiently(ctx, c, c.readAll) }

func (c *Client) readAll(whole context.Context) (*Survey, error) {
	ctx, cancel := firstOf(whole)
	defer cancel()
	var all probe.Workers
	s, err := c.readEach(ctx, c.readShared)
	if err != nil {
		return nil, err
	}
	s.Now, _ = c.clock.Now()
	s.read = time.Now()
	calico, everywhere := s.anyCalico()
	s.given = c.readConfigMaps(whole, calico)
	c.ReadAbsent(whole, &s.Installation, !everywhere, &all)
	all.Wait()
	if as := c.asConfigured(environmentOf(calico, s.given)); as.groups[0].Group != groups[0].Group {
		as.readCalico(whole, &s.resources, &all)
		all.Wait()
	}
	return s, nil
}

// firstOf limits the time for the first lists: a hanging list must not use up the time for later lists.
func firstOf(whole context.Context) (context.Context, context.CancelFunc) {
	end, limited := whole.Deadline() // the caller's deadline may be earlier
	if !limited {
		return context.WithCancel(whole)
	}
	return context.WithTimeout(whole, time.Duration(firstShare*float64(time.Until(end))))
}

// NewSurvey returns a Survey without any data.
func (c *Client) NewSurvey() *Survey {
	s := &Survey{CalicoIn: c.CalicoIn}
	s.memo = newMemo(s)
	return s
}

// anyCalico returns a verified calico-node pod from any node, or nil, and whether every node has such a pod. One
// DaemonSet creates these pods, so they use the same ConfigMaps.
func (s *Survey) anyCalico() (calico *corev1.Pod, everywhere bool) {
	everywhere = true
	for i := range s.Nodes {
		of, _ := claimsOf(s.Claims.Value[s.Nodes[i].Name], s.CalicoIn)
		calico, everywhere = cmp.Or(calico, of.Value), everywhere && of.Value != nil
	}
	return calico, everywhere
}

// SurveyChecks returns the IDs of the API checks that Of's snapshots answer.
func SurveyChecks() []string {
	return []string{
		facts.CheckNodeReady, facts.CheckNodeLease, facts.CheckNodeTaints, facts.CheckServiceClaims,
		facts.CheckServiceEndpoints, facts.CheckCalicoKind, facts.CheckCalicoPod, facts.CheckCalicoBudget,
		facts.CheckControllers, facts.CheckIPRegistered, facts.CheckHostEndpoints, facts.CheckDatastoreReady,
		facts.CheckRouteMakers, facts.CheckBGPPeering, facts.CheckIPPools, facts.CheckWebhooks, facts.CheckTunnelSettings,
		facts.CheckPodsCreated,
	}
}

// Of returns one node's snapshot from a Survey by ReadAll. The snapshot does not contain data that needs a separate
// request per node. It answers SurveyChecks.
func (s *Survey) Of(n *corev1.Node) *Snapshot {
	out := s.of(n, s.Now)
	out.Read, out.Together = s.read, true
	out.configMaps = s.given
	out.configured(out.environment())
	out.Services.Err = s.AllServices.Err
	out.HideEtcd()
	out.ForgetRegistered()
	return out
}

// Unknown returns the error for a node that the cluster does not have.
func (s *Survey) Unknown(name string) error {
	return &UnknownNodeError{Name: name, Have: alike(s.Nodes, name)}
}

// readShared starts reading the data that is the same for every node, except the nodes.
func (c *Client) readShared(ctx context.Context, s *Survey, all *probe.Workers) {
	s.Controllers.start(ctx, all, c.readControllers)
	c.readCalico(ctx, &s.resources, all)
	s.API.start(ctx, all, c.readAPI)
	s.DNS.start(ctx, all, c.ReadDNS)
	s.DNSServers.start(ctx, all, c.ReadDNSServers)
	s.Webhooks.start(ctx, all, c.ReadWebhooks)
	s.Refused.start(ctx, all, c.ReadRefused)
	s.Stray.start(ctx, all, func(ctx context.Context) ([]strayEndpoints, error) {
		if s.AllServices.read(ctx, c.listServices); s.AllServices.Err != nil {
			return nil, s.AllServices.Err
		}
		return c.readStray(ctx, s.AllServices.Value)
	})
}

// readEach reads the nodes, their leases and their calico-node pods. It calls more, which starts reading further data
// concurrently.
func (c *Client) readEach(ctx context.Context, more func(context.Context, *Survey, *probe.Workers)) (*Survey, error) {
	s := c.NewSurvey()
	var nodes Read[[]corev1.Node]
	var all probe.Workers
	nodes.start(ctx, &all, c.readTrimmed)
	s.Leases.start(ctx, &all, c.readLeases)
	s.Claims.start(ctx, &all, c.readClaims)
	more(ctx, s, &all)
	all.Wait()
	s.Nodes = nodes.Value
	return s, nodes.Err
}

// OfEach takes a snapshot of every node, from the nodes, their leases and their calico-node pods. gaps lists the data,
// other than the nodes, that could not be read.
func (c *Client) OfEach(ctx context.Context) (out []*Snapshot, gaps []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	survey, err := c.readEach(ctx, func(context.Context, *Survey, *probe.Workers) {})
	if err != nil {
		return nil, nil, err
	}
	if survey.Leases.Err != nil {
		gaps = append(gaps, "unknown which kubelets are silent: "+probe.OneLine(survey.Leases.Err.Error()))
	}
	if survey.Claims.Err != nil {
		gaps = append(gaps, "unknown state of calico-node: "+probe.OneLine(survey.Claims.Err.Error()))
	}
	now, _ := c.clock.Now()
	for i := range survey.Nodes {
		out = append(out, survey.of(&survey.Nodes[i], now))
	}
	return out, gaps, nil
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

// readTrimmed lists all nodes by name, without large unneeded fields.
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

// of returns the snapshot of one node from the data of all nodes. now is by the API server's clock.
func (s *Survey) of(n *corev1.Node, now time.Time) *Snapshot {
	out := &Snapshot{Survey: *s, asRead: s, Now: now, Node: n, Calico: Read[*corev1.Pod]{Err: s.Claims.Err},
		Lease: Read[*coordinationv1.Lease]{s.Leases.Value[n.Name], s.Leases.Err}}
	if s.Claims.Err == nil {
		out.Calico, out.ignored = claimsOf(s.Claims.Value[n.Name], s.CalicoIn)
	}
	if out.Lease.Value == nil && s.Leases.Err == nil {
		out.Lease.Err = apierrors.NewNotFound(coordinationv1.Resource("leases"), n.Name)
	}
	return out
}
