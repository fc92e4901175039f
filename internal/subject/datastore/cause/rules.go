// Package cause has the causes of the datastore: the way to the API server or etcd, Typha, accounts and tokens: what
// each looks like in the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	controllersEnd, datastoreNotReady, apiAddressWrong, apiCutOff, apiEndpointDead, apiUnhealthy, apiSlow,
	etcdRefuses, typhaUnreachable, accountGone, cniTokenExpired,
}
