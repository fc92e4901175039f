package cluster

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func datastoreReady(s *Snapshot, report func(probe.Result)) {
	tell := func(r probe.Result) {
		if s.group != "" {
			r = r.With(facts.Group, s.group)
		}
		report(r)
	}
	on, there := s.info["datastoreReady"].(bool)
	switch {
	case s.infoErr != nil:
		report(unread(s.infoErr))
	case !there:
		report(probe.Found(probe.Skip, "no ClusterInformation says it"))
	case on:
		tell(probe.Found(probe.OK, "datastoreReady is true").With(facts.DatastoreReady, true))
	case s.migration != "":
		tell(probe.Found(probe.Warn, "datastoreReady is false in %s while DatastoreMigration %s is there: no new pod gets a network until it is over, or calico-node uses the other group", s.group, s.migration).
			With(facts.DatastoreReady, false).With(facts.Migration, s.migration))
	default:
		tell(probe.Found(probe.Fail, "datastoreReady is false: no new pod gets a network, and Felix makes no changes; calico-node may be Ready all the same").
			With(facts.DatastoreReady, false))
	}
}
