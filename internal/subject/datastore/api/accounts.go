package api

import (
	"cmp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// maxTokenAge is how long a pod may keep a token of a recreated account. Tokens are valid for 3607 s. The kubelet
// replaces them after four fifths of that, less a random part (kubelet, token_manager.go).
const maxTokenAge = time.Hour

// calicoAccounts reports service accounts of Calico that are missing, or were recreated after their tokens.
func calicoAccounts(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Accounts.Err != nil {
		report(apicheck.Unread(s.Accounts.Err))
		return
	}
	if len(s.Accounts.Value) == 0 {
		report(probe.Found(probe.Skip, "no Calico pod with a ServiceAccount was found"))
		return
	}
	for _, a := range s.Accounts.Value {
		name := a.Who.Namespace + ":" + a.Who.Name
		var r probe.Result
		switch err := a.Read.Err; {
		case apierrors.IsNotFound(err):
			status := probe.Warn // only the token shows that the CNI plugin uses this account
			if a.Of == facts.AccountNode {
				status = probe.Fail
			}
			r = probe.Found(status, "this ServiceAccount does not exist, so the API server rejects all its tokens").
				With(probe.FactReason, facts.AccountGone)
		case apierrors.IsForbidden(err):
			r = probe.Found(probe.Skip, "you may not read this ServiceAccount")
		case err != nil:
			r = apicheck.Unread(err)
		case a.Of == facts.AccountNode && isRecreated(s, a):
			r = probe.Found(probe.Warn,
				"created %s ago, after calico-node's pod: the API server rejects the token that the pod started with",
				probe.Age(s.Now.Sub(a.Made()))).With(probe.FactReason, facts.AccountRemade)
		default:
			r = probe.Found(probe.OK, "it exists")
		}
		report(r.On(cmp.Or(map[string]string{facts.AccountNode: "calico-node", facts.AccountCNI: "CNI plugin"}[a.Of],
			"calico-kube-controllers")).With(facts.Account, name).With(facts.AccountOf, a.Of).
			With(facts.AccountUID, string(a.Read.Value.UID)))
	}
}

// isRecreated reports whether calico-node's account is younger than its pod: the pod may still have the old account's
// token.
func isRecreated(s *cluster.Snapshot, a cluster.CalicoAccount) bool {
	began := s.Calico.Value.CreationTimestamp.Time
	return !s.Now.IsZero() && a.Made().After(began) && s.Now.Sub(a.Made()) < maxTokenAge
}
