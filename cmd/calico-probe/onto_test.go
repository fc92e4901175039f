package main

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func TestDestination(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "w3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}, {Type: corev1.NodeInternalIP, Address: "fd00::7"},
	}}}
	for ssh, want := range map[string]string{
		"": "10.0.0.7", "admin@{ip}": "admin@10.0.0.7", "{node}.example.com": "worker-3.example.com", "jump": "jump",
	} {
		if got := (&runOptions{ssh: ssh}).destination(node); got != want {
			t.Errorf("%q: %s, want %s", ssh, got, want)
		}
	}
	if got := (&runOptions{ssh: "admin@{ip}"}).destination(&corev1.Node{}); got != "" {
		t.Errorf("without an address: %s", got)
	}
}

// TestHostileAddress wants nothing of what a kubelet writes for its node's address to reach
// ssh but an address that another machine can have.
func TestHostileAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"root@other": "", "-oProxyCommand=id": "", "10.0.0.7\x1b[2J": "", " 10.0.0.7": "", "other.example.com": "", "10.0.0.7/24": "",
		"fe80::1%eth0": "", "fd00::7%-oX": "", "127.0.0.1": "", "::1": "", "::ffff:127.0.0.1": "", "0.0.0.0": "", "224.0.0.1": "", "169.254.169.254": "",
		"010.0.0.7": "", "10.0.0.7": "10.0.0.7", "FD00:0::7": "fd00::7", "::ffff:10.0.0.7": "10.0.0.7",
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		for ssh, want := range map[string]string{"": want, "admin@{ip}": as("admin@", want), "{node}": "worker-3"} {
			if got := (&runOptions{ssh: ssh}).destination(node); got != want {
				t.Errorf("%q with --ssh %q: %q, want %q", address, ssh, got, want)
			}
		}
	}
}

// as puts a user before a host, where there is one.
func as(user, host string) string {
	if host == "" {
		return ""
	}
	return user + host
}

// TestSharedMachine wants a machine-id that two nodes have to tell nothing of either.
func TestSharedMachine(t *testing.T) {
	t.Parallel()
	var all []corev1.Node
	for name, id := range map[string]string{"a": "1", "b": "2", "c": "2"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.MachineID = id
		all = append(all, n)
	}
	for _, n := range all {
		if got, want := machineOf(&n, all), map[string]string{"a": "1"}[n.Name]; got != want {
			t.Errorf("%s: %q, want %q", n.Name, got, want)
		}
	}
}

// TestPodElsewhere wants a pod that is refused beside calico-node to go where 'manifests'
// grants it, which is said once, and only where nobody has named a namespace. The way is a
// stand-in for the API server's answers.
func TestPodElsewhere(t *testing.T) {
	t.Parallel()
	refused := func(r facts.Reason) error {
		return &injector.PlacementError{Reason: r, Text: "refused by " + string(r)}
	}
	const both = install.Namespace + ", which 'calico-probe manifests' prints: "
	for name, c := range map[string]struct {
		named  string
		beside error  // what kube-system says
		there  error  // what the namespace of 'manifests' says
		tried  string // for the first probe and the second
		says   string
	}{
		"admitted":               {tried: "kube-system kube-system"},
		"no right":               {beside: refused(facts.ReasonRBAC), tried: "kube-system calico-probe calico-probe"},
		"policy":                 {beside: refused(facts.ReasonAdmission), tried: "kube-system calico-probe calico-probe"},
		"quota":                  {beside: refused(facts.ReasonQuota), tried: "kube-system calico-probe calico-probe"},
		"no right anywhere":      {beside: refused(facts.ReasonRBAC), there: refused(facts.ReasonRBAC), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by rbac; nor in namespace " + both + "no right there either"},
		"nothing installed":      {beside: refused(facts.ReasonAdmission), there: refused(facts.ReasonNamespace), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by admission; nor in namespace " + both + "refused by namespace"},
		"a dead kubelet":         {beside: refused(facts.ReasonKubelet), tried: "kube-system kube-system", says: "refused by kubelet"},
		"a dead kubelet there":   {beside: refused(facts.ReasonRBAC), there: refused(facts.ReasonKubelet), tried: "kube-system calico-probe calico-probe", says: "refused by kubelet"},
		"the API fails there":    {beside: refused(facts.ReasonQuota), there: refused(facts.ReasonAPI), tried: "kube-system calico-probe kube-system calico-probe", says: "refused by api; and namespace kube-system does not take it: refused by quota"},
		"stopped there":          {beside: refused(facts.ReasonQuota), there: context.Canceled, tried: "kube-system calico-probe kube-system calico-probe", says: "context canceled; and namespace kube-system does not take it: refused by quota"},
		"named":                  {named: "kube-system", beside: refused(facts.ReasonRBAC), tried: "kube-system kube-system", says: "refused by rbac; where 'manifests' was applied, it is -n calico-probe"},
		"named, policy":          {named: "kube-system", beside: refused(facts.ReasonAdmission), tried: "kube-system kube-system", says: "refused by admission"},
		"named as it is printed": {named: install.Namespace, there: refused(facts.ReasonRBAC), tried: "calico-probe calico-probe", says: "refused by rbac"},
	} {
		var errs bytes.Buffer
		o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &errs}, flags: &genericclioptions.ConfigFlags{Namespace: &c.named}}}
		var tried []string
		open := o.podOrElsewhere(func(_ context.Context, opts injector.Options) (*injector.Session, error) {
			tried = append(tried, opts.Namespace)
			if opts.Namespace == install.Namespace {
				return nil, c.there
			}
			return nil, c.beside
		})
		said := ""
		for range 2 {
			if _, err := open(t.Context(), o.placement(wayPod, nil, attempt{})); err != nil {
				said = err.Error()
			}
		}
		if got := strings.Join(tried, " "); got != c.tried || said != c.says {
			t.Errorf("%s: tried %s, %q", name, got, said)
		}
		if got, want := strings.Count(errs.String(), "so it goes into calico-probe\n"), strings.Count(c.tried, "calico-probe calico-probe"); c.named == "" && got != want {
			t.Errorf("%s: %s", name, &errs)
		}
	}
}

// TestPodBack wants a namespace that took a pod, and does not any more, left for the one
// beside calico-node again.
func TestPodBack(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	o := &runOptions{app: &app{elsewhere: new(atomic.Bool), IOStreams: genericiooptions.IOStreams{ErrOut: &errs}, flags: genericclioptions.NewConfigFlags(true)}}
	refuses := "kube-system"
	var tried []string
	open := o.podOrElsewhere(func(_ context.Context, opts injector.Options) (*injector.Session, error) {
		if tried = append(tried, opts.Namespace); opts.Namespace == refuses {
			return nil, &injector.PlacementError{Reason: facts.ReasonQuota, Text: "full"}
		}
		return nil, nil
	})
	for _, refuses = range []string{"kube-system", install.Namespace, install.Namespace} {
		if _, err := open(t.Context(), o.placement(wayPod, nil, attempt{})); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(tried, " "); got != "kube-system calico-probe calico-probe kube-system kube-system" || strings.Count(errs.String(), "so it goes into") != 2 {
		t.Errorf("tried %s\n%s", got, &errs)
	}
}
