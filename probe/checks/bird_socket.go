package checks

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// BirdSocket asks whether BIRD lives, by its control socket: a file left by a
// dead BIRD refuses, a frozen one accepts and stays silent.
var BirdSocket = &probe.Check{
	ID: probe.CheckBirdSocket, Asks: "does BIRD answer on its control socket?", From: probe.FromNode,
	Tags: []string{tagBGP}, Access: []string{"run/calico"}, Run: birdSocket,
	Doc: `BIRD carries the routes between nodes, one daemon for IPv4 (bird.ctl) and one for IPv6 (bird6.ctl).
ok: it answers and says that it is up.
fail, refused: the socket exists but nothing listens: BIRD died, often because another program holds port 179.
fail, missing: BIRD never started on this node, usually because calico-node has not finished its start-up.
fail, no answer: it accepts the connection but does not answer: frozen, or starved of CPU.
skip: Calico's networking backend here is not bird (VXLAN, policy only), also where a socket is left over from when it was; or has no address of that family.
unknown: there is no socket, and the plan does not say whether this node should run BIRD; or who listens is not on the node: a process in the network of a pod, or not root's where that is not visible.`,
}

func birdSocket(ctx context.Context, p *probe.Pass) {
	each(daemons(), func(d daemon) {
		r := judgeSocket(ctx, d, p)
		p.Report(r.With(FactFamily, d.family))
	})
}

func judgeSocket(ctx context.Context, d daemon, p *probe.Pass) probe.Result {
	// calico-node's own check waits two seconds.
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	c, name, err := d.talk(one, p.Host)
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
		r = r.With(FactSince, int(age.Seconds()))
	}
	return r.On(name).With(FactVersion, s.Version).With(FactRouterID, s.RouterID)
}
