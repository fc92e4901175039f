package ask

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// birdSocketCheck binds bgp.BirdSocket to the function that runs it.
var birdSocketCheck = answers.To(bgp.BirdSocket, birdSocket)

func birdSocket(ctx context.Context, p *probe.Pass) {
	node.Each(node.Daemons(), func(d node.Daemon) {
		r := judgeSocket(ctx, d, p)
		p.Report(r.With(probe.FactFamily, d.Family))
	})
}

func judgeSocket(ctx context.Context, d node.Daemon, p *probe.Pass) probe.Result {
	// calico-node's own check waits for two seconds.
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	c, name, err := d.Talk(one, p.Host)
	if err != nil {
		return judgeDead(d, p, limit, err).On(name)
	}
	defer c.Close()
	s, err := c.Status()
	if err != nil {
		return judgeDead(d, p, limit, err).On(name)
	}
	r := probe.Found(probe.OK, "BIRD %s answers, router ID %s", s.Version, s.RouterID)
	if s.Daemon != "Daemon is up and running" {
		r = probe.Found(probe.Warn, "BIRD %s answers: %s", s.Version, s.Daemon)
	}
	if age, ok := bird.Age(s.LastReboot, s.ServerTime); ok {
		r.Saw += ", up for " + age.Round(time.Second).String()
		r = r.With(node.FactSince, int(age.Seconds()))
	}
	return r.On(name).With(probe.FactVersion, s.Version).With(bgp.FactRouterID, s.RouterID)
}
