package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// calicoAccount is a ServiceAccount of Calico's as the API has it.
type calicoAccount struct {
	of   string // whose: one of the words of facts.AccountOf
	who  account
	read Read[metav1.ObjectMeta]
}

func (a calicoAccount) made() time.Time { return a.read.Value.CreationTimestamp.Time }

// accountsOf are the accounts that Calico's parts have by their pods.
func accountsOf(s *Snapshot) []calicoAccount {
	var out []calicoAccount
	add := func(of, namespace, name string) {
		if name != "" {
			out = append(out, calicoAccount{of: of, who: account{namespace: namespace, name: name}})
		}
	}
	if s.Calico.Value != nil {
		own := s.Calico.Value.Spec.ServiceAccountName
		add(facts.AccountNode, s.Calico.Value.Namespace, own)
		if token := s.tokenFor(); token != own {
			add(facts.AccountCNI, s.Calico.Value.Namespace, token)
		}
	}
	if len(s.controllers.Value) > 0 {
		p := &s.controllers.Value[0]
		add(facts.AccountControllers, p.Namespace, p.Spec.ServiceAccountName)
	}
	return out
}

// readAccounts reads the accounts of Calico's parts.
func (c *Client) readAccounts(ctx context.Context, s *Snapshot) ([]calicoAccount, error) {
	out := accountsOf(s)
	for i, read := range forEach(out, func(a calicoAccount) (metav1.ObjectMeta, error) {
		got, err := c.kube.CoreV1().ServiceAccounts(a.who.namespace).Get(ctx, a.who.name, metav1.GetOptions{})
		if err != nil {
			return metav1.ObjectMeta{}, fmt.Errorf("reading ServiceAccount %s/%s: %w", a.who.namespace, a.who.name, err)
		}
		return got.ObjectMeta, nil
	}) {
		out[i].read = read
	}
	return out, nil
}

// tokenCached is how long a kubelet goes on giving a pod a token that it has: four fifths of the 3607 s that
// the API server's admission asks for, and a part at random (kubelet, token_manager.go).
const tokenCached = time.Hour

// calicoAccounts says which accounts of Calico's are gone, or were made anew since tokens of them were made.
func calicoAccounts(s *Snapshot, report func(probe.Result)) {
	if s.accounts.Err != nil {
		report(unread(s.accounts.Err))
		return
	}
	if len(s.accounts.Value) == 0 {
		report(probe.Found(probe.Skip, "no pod of Calico's that has an account is known here"))
		return
	}
	for _, a := range s.accounts.Value {
		name := a.who.namespace + ":" + a.who.name
		var r probe.Result
		switch err := a.read.Err; {
		case apierrors.IsNotFound(err):
			status := probe.Warn // of the CNI plugin only its token says that it is of this account
			if a.of == facts.AccountNode {
				status = probe.Fail
			}
			r = probe.Found(status, "there is no such ServiceAccount, and the API server refuses every token of it").
				With(probe.FactReason, facts.AccountGone)
		case apierrors.IsForbidden(err):
			r = probe.Found(probe.Skip, "you may not read this ServiceAccount")
		case err != nil:
			r = unread(err)
		case a.of == facts.AccountNode && s.remade(a):
			r = probe.Found(probe.Warn,
				"it was made %s ago, after calico-node's pod: the API server refuses the token that the pod began with",
				probe.Age(s.Now.Sub(a.made()))).With(probe.FactReason, facts.AccountRemade)
		default:
			r = probe.Found(probe.OK, "it is there")
		}
		report(r.On(cmp.Or(map[string]string{facts.AccountNode: "calico-node", facts.AccountCNI: "CNI plugin"}[a.of],
			"calico-kube-controllers")).With(facts.Account, name).With(facts.AccountOf, a.of).
			With(facts.AccountUID, string(a.read.Value.UID)))
	}
}

// remade tells whether calico-node's account is younger than its pod, which may still have the old one's token.
func (s *Snapshot) remade(a calicoAccount) bool {
	began := s.Calico.Value.CreationTimestamp.Time
	return !s.Now.IsZero() && a.made().After(began) && s.Now.Sub(a.made()) < tokenCached
}
