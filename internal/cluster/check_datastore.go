package cluster

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func datastoreReady(s *Snapshot, report func(probe.Result)) {
	tell := func(r probe.Result) {
		if s.info.Value.group != "" {
			r = r.With(facts.Group, s.info.Value.group)
		}
		report(r)
	}
	on, there := s.info.Value.spec["datastoreReady"].(bool)
	switch {
	case s.info.Err != nil:
		report(unread(s.info.Err))
	case !there:
		report(probe.Found(probe.Skip, "no ClusterInformation says it"))
	case on:
		tell(probe.Found(probe.OK, "datastoreReady is true").With(facts.DatastoreReady, true))
	case s.info.Value.migration != "":
		tell(probe.Found(probe.Warn, "datastoreReady is false in %s while DatastoreMigration %s is there: no new pod gets a network until it is over, or calico-node uses the other group", s.info.Value.group, s.info.Value.migration).
			With(facts.DatastoreReady, false).With(facts.Migration, s.info.Value.migration))
	default:
		tell(probe.Found(probe.Fail, "datastoreReady is false: no new pod gets a network, and Felix makes no changes; calico-node may be Ready all the same").
			With(facts.DatastoreReady, false))
	}
}
