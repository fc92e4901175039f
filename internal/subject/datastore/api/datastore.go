package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func datastoreReady(s *cluster.Snapshot, report func(probe.Result)) {
	send := func(r probe.Result) {
		if s.Info.Value.Group != "" {
			r = r.With(facts.Group, s.Info.Value.Group)
		}
		report(r)
	}
	on, there := s.Info.Value.Spec["datastoreReady"].(bool)
	switch {
	case s.Info.Err != nil:
		report(apicheck.Unread(s.Info.Err))
	case !there:
		report(probe.Found(probe.Skip, "no ClusterInformation has datastoreReady"))
	case on:
		send(probe.Found(probe.OK, "datastoreReady is true").With(facts.DatastoreReady, true))
	case s.Info.Value.Migration != "":
		send(probe.Found(probe.Warn, "datastoreReady is false in %s while DatastoreMigration %s exists: new pods get no network until the migration ends or calico-node uses the other API group", s.Info.Value.Group, s.Info.Value.Migration).
			With(facts.DatastoreReady, false).With(facts.Migration, s.Info.Value.Migration))
	default:
		send(probe.Found(probe.Fail, "datastoreReady is false: new pods get no network, and Felix makes no changes; calico-node may still be Ready").
			With(facts.DatastoreReady, false))
	}
}
