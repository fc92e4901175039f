package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/roles"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// CalicoAccount is one of Calico's ServiceAccounts in the API.
type CalicoAccount struct {
	Of   string // its owner: one of the words for facts.AccountOf
	Who  roles.Account
	Read Read[metav1.ObjectMeta]
}

// Made returns the creation time of the account.
func (a CalicoAccount) Made() time.Time { return a.Read.Value.CreationTimestamp.Time }

// accountsOf returns the ServiceAccounts that Calico's pods use.
func accountsOf(s *Snapshot) []CalicoAccount {
	var out []CalicoAccount
	add := func(of, namespace, name string) {
		if name != "" {
			out = append(out, CalicoAccount{Of: of, Who: roles.Account{Namespace: namespace, Name: name}})
		}
	}
	if s.Calico.Value != nil {
		own := s.Calico.Value.Spec.ServiceAccountName
		add(facts.AccountNode, s.Calico.Value.Namespace, own)
		if token := s.tokenFor(); token != own {
			add(facts.AccountCNI, s.Calico.Value.Namespace, token)
		}
	}
	if len(s.Controllers.Value) > 0 {
		p := &s.Controllers.Value[0]
		add(facts.AccountControllers, p.Namespace, p.Spec.ServiceAccountName)
	}
	return out
}

// readAccounts reads the ServiceAccounts of Calico's pods.
func (c *Client) readAccounts(ctx context.Context, s *Snapshot) ([]CalicoAccount, error) {
	out := accountsOf(s)
	for i, read := range forEach(out, func(a CalicoAccount) (metav1.ObjectMeta, error) {
		got, err := c.kube.CoreV1().ServiceAccounts(a.Who.Namespace).Get(ctx, a.Who.Name, metav1.GetOptions{})
		if err != nil {
			return metav1.ObjectMeta{}, fmt.Errorf("reading ServiceAccount %s/%s: %w", a.Who.Namespace, a.Who.Name, err)
		}
		return got.ObjectMeta, nil
	}) {
		out[i].Read = read
	}
	return out, nil
}
