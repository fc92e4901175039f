package ask

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// settingToHost is the name of Felix's setting. kubeletAPI is the default port of the kubelet's API.
const (
	settingToHost = "defaultEndpointToHostAction"
	kubeletAPI    = 10250
)

// ownNode connects from the pod to the kubelet on the pod's node. The kubelet represents any
// program in the host network.
func ownNode(ctx context.Context, p *probe.Pass) {
	if p.From == "" {
		return
	}
	k, _ := node.ReadKubelet(p.Host)
	node.Each(p.Of(probe.KindSelf), func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(cmp.Or(k.Port, kubeletAPI)))
		c := reach.Connect(ctx, to)
		p.Report(judgeOwnNode(p, acceptRefusal(c.Result(ctx), c, false)).On(pod.RoleOwnNode+" "+to.String()).
			With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactPort, int(to.Port())).With(probe.FactRole,
			pod.RoleOwnNode))
	})
}

// judgeOwnNode evaluates the result. A node may have good reasons to block its pods, so a failure alone is only
// information. It is a warning if Felix is configured to block such packets and no policy applies to the pod.
func judgeOwnNode(p *probe.Pass, r probe.Result) probe.Result {
	if r.Status != probe.Fail {
		return r
	}
	r.Status = probe.Info
	hasPolicy := slices.ContainsFunc(p.Of(probe.KindLocal), func(t probe.Target) bool {
		return t.Name == p.From && (t.Attrs[probe.AttrPolicy] != "" || t.Attrs[probe.AttrUnread] != "")
	})
	felix := p.Of(probe.KindFelix)
	reason := r.Facts.Str(probe.FactReason)
	if hasPolicy || len(felix) == 0 || p.Gaps[probe.KindFelix] != "" || reason != "timeout" && reason != "rejected" {
		return r
	}
	switch set := felix[0].Attrs[settingToHost]; strings.ToLower(set) {
	case "":
		r.Saw += "; Felix drops traffic from pods to their own node by default, and " + settingToHost + " is not set"
		r = r.With(pod.FactToHost, "drop")
	case "drop", "reject":
		r.Saw += "; Felix blocks traffic from pods to their own node: " + settingToHost + " is " + probe.Quoted(set)
		r = r.With(pod.FactToHost, strings.ToLower(set))
	default:
		return r
	}
	r.Status = probe.Warn
	return r
}
