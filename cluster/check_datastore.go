package cluster

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func datastoreReady(s *Snapshot, report func(probe.Result)) {
	if s.infoErr != nil {
		report(unread(s.infoErr))
		return
	}
	switch on, there := s.info["datastoreReady"].(bool); {
	case !there:
		report(probe.Found(probe.Skip, "no ClusterInformation says it"))
	case on:
		report(probe.Found(probe.OK, "datastoreReady is true").With(facts.DatastoreReady, true))
	default:
		report(probe.Found(probe.Fail, "datastoreReady is false: no pod gets a network, and no calico-node starts").With(facts.DatastoreReady, false))
	}
}
