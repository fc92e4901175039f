package api

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func deadWebhooks(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Webhooks.Err != nil {
		r := apicheck.Unread(s.Webhooks.Err)
		if cluster.Denied(s.Webhooks.Err) {
			r = probe.Found(probe.Skip, "you may not list webhooks")
		}
		report(r)
		return
	}
	blocking := 0
	for _, h := range s.Webhooks.Value.Dead {
		keeps := h.KeepsFrom(s.CalicoIn)
		if len(keeps) == 0 {
			continue
		}
		blocking++
		r := probe.Found(probe.Warn, "webhook %s is dead (%s) and fails closed: it blocks writes of %s",
			probe.Quoted(h.Name), h.Why, strings.Join(keeps, ", "))
		stops := slices.Contains(keeps, facts.KeepsOthers) ||
			slices.Contains(keeps, facts.KeepsLeases) && cluster.KubeletSilent(s) ||
			slices.Contains(keeps, facts.KeepsPods) && s.Calico.Value == nil && s.Calico.Err == nil &&
				cluster.NotCalicos(s.Node) == ""
		switch {
		case h.Conditions:
			r.Status = probe.Info
			r.Saw += " where its conditions match (not evaluated)"
		case stops:
			r.Status = probe.Fail
		}
		report(r.On(probe.OneLine(h.Config)).With(facts.KeepsFrom, keeps).With(facts.Webhook, probe.Quoted(h.Name)).
			With(facts.WebhookOf, probe.OneLine(h.Config)))
	}
	switch {
	case s.Webhooks.Value.Dark > 0:
		report(probe.Found(probe.Unknown, "%s with failurePolicy Fail; state of %d unknown",
			cluster.Plural(s.Webhooks.Value.Of, "webhook"), s.Webhooks.Value.Dark).On("not read"))
	case blocking == 0:
		report(probe.Found(probe.OK,
			"%s with failurePolicy Fail; the node, Calico and new pods are not blocked",
			cluster.Plural(s.Webhooks.Value.Of, "webhook")))
	}
}
