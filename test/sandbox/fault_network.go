package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// networkFaults are faults of addresses, BGP, routes and firewalls. All affect node-b and only IPv4, so that the
// healthy family is visible beside the broken one.
func networkFaults() []fault {
	all := slices.Concat(addressFaults(), sessionFaults(), packetFaults())
	for i := range all {
		all[i].Node, all[i].Heal = "node-b", restored
	}
	return all
}

// addressFaults are faults of the node address that Calico uses.
func addressFaults() []fault {
	const node = "node-b"
	me, peer := members()[1], members()[0]
	const nic = "ip link add ens224 type veth peer name ens224-far; ip addr add 10.0.0.66/24 dev ens224; ip link set ens224 up; ip link set ens224-far up"
	const bridge = "ip link add br-1a2b3c4d5e6f type bridge; ip addr add 172.18.0.1/16 dev br-1a2b3c4d5e6f; ip link set br-1a2b3c4d5e6f up"
	return []fault{
		{
			Name: "bgp-passive-second-nic", Incident: "F5", About: "calico-node not ready, 'BGP not established'; the session waits as Passive; a NIC was added",
			Shows:  shows{Cause: "address-second-nic", API: "address-second-nic", Runbook: "bgp-not-established", Gate: true},
			Inject: steps(unrouted, scripted(node, nic), moved(me, "10.0.0.66/24")),
		},
		{
			Name: "bgp-connect-docker-bridge", Incident: "F6", About: "calico-node not ready, 'BGP not established with 172.18.0.1', after 'docker network create'",
			Shows:  shows{Cause: "address-bridge", API: "address-bridge", Runbook: "bgp-not-established"},
			Inject: steps(unrouted, scripted(node, bridge), moved(me, "172.18.0.1/16")),
		},
		{
			Name: "new-nic", About: "nothing yet: a NIC was added, and Calico will pick it at its next autodetection",
			Shows:  shows{Cause: "address-will-change", Runbook: "before-reboot", Branch: "address-soon"},
			Inject: scripted(node, nic),
		},
		{
			Name: "address-taken", About: "'Calico node node-a is already using the IPv4 address'; no sessions between two nodes",
			Shows:  shows{Cause: "address-taken"},
			Inject: steps(unrouted, moved(me, peer.IP4.String()+"/24")),
		},
	}
}

// sessionFaults are faults of BGP sessions.
func sessionFaults() []fault {
	const node, other = "node-b", "node-a"
	me, peer := members()[1], members()[0]
	return []fault{
		{
			Name: "bird-dead", About: "calico-node not ready; pods of other nodes unreachable",
			Shows:  shows{Cause: "bird-dead", Runbook: "bgp-not-established"},
			Inject: steps(unrouted, scripted(node, stop("bird"))),
		},
		{
			Name: "peer-bird-dead", About: "the session is refused: 'Active Socket: Connection refused'",
			Shows:  shows{Cause: "peer-bird-dead", Runbook: "bgp-not-established"},
			Inject: steps(unrouted, scripted(other, stop("bird"))),
		},
		{
			Name: "bgp-port-dropped", About: "the session stays in Connect without an error; ping works",
			Shows: shows{Cause: "input-closed", Runbook: "bgp-not-established", Gate: true},
			Inject: steps(unrouted, filtered(node, "prerouting", "tcp dport 179 drop"),
				filtered(other, "prerouting", "tcp dport 179 drop"), restarted),
		},
		{
			Name: "bgp-port-rejected", About: "the session reports 'Host is unreachable'; ping works",
			Shows:  shows{Cause: "input-closed"},
			Inject: steps(unrouted, filtered(other, "input", "tcp dport 179 reject with icmp type host-prohibited"), filtered(node, "input", "tcp dport 179 reject with icmp type host-prohibited"), restarted),
		},
		{
			Name: "stale-node", About: "a session to a node that was removed from the racks but not from the API",
			Shows:  shows{Cause: "peer-down", Runbook: "bgp-not-established", Mild: true},
			Inject: steps(ghost, withGhost(me), withGhost(peer)),
		},
		{
			Name: "bgp-routes-held", About: "sessions are up, but their routes are not in the kernel; calico-node has just restarted",
			Shows:  shows{Cause: "bgp-restart-hold", Runbook: "bgp-not-established"},
			Inject: steps(unrouted, ghost, withGhost(me), withGhost(peer), scripted(node, signalTo("bird", "KILL")+"; sleep 0.5; ip route flush proto bird")),
		},
		{
			Name: "wrong-as", About: "the session never gets past OpenSent: 'Bad peer AS'",
			Shows: shows{Cause: "bgp-wrong-as"},
			Inject: steps(unrouted, rendered(me, settingOf(me), strings.NewReplacer("local as 64512", "local as 64999")),
				restarted),
		},
	}
}

// packetFaults are faults of routes and firewalls, with working sessions.
func packetFaults() []fault {
	const node, other = "node-b", "node-a"
	me, peer := members()[1], members()[0]
	return []fault{
		{
			Name: "route-missing", About: "the session is up, but there is no route to the peer's pods",
			Shows:  shows{Cause: "route-not-in-kernel", Gate: true},
			Inject: steps(unrouted, rendered(me, settingOf(me), strings.NewReplacer("export filter { if source = RTS_BGP || source = RTS_STATIC then accept; reject; };", "export where source = RTS_STATIC;"))),
		},
		{
			Name: "route-swallowed", About: "pods of one other node are unreachable from here: a blackhole route",
			Shows:  shows{Cause: "route-swallowed"},
			Inject: rendered(me, settingOf(me), strings.NewReplacer("protocol static static1 {", "protocol static static1 { route "+peer.Block4.String()+" blackhole;")),
		},
		{
			Name: "small-mtu", About: "between pods of two nodes, requests pass and large responses hang",
			Shows: shows{Cause: "peer-firewall", Runbook: "pods-unreachable", Gate: true},
			Inject: steps(
				filtered(node, "prerouting", "ip length > 1400 ip saddr "+pods4+" iifname eth0 drop"),
				filtered(other, "prerouting", "ip length > 1400 ip saddr "+pods4+" iifname eth0 drop",
					"ip length > 1400 ip daddr "+pods4+" iifname eth0 drop"),
			),
		},
		{
			Name: "forward-drop", About: "pods reach nothing outside their node; the node itself reaches everything",
			Shows:  shows{Cause: "firewall-forward-drop", Gate: true},
			Inject: scripted(node, "nft 'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'"),
		},
		{
			Name: "uplink-shaped", About: "pods reach nothing outside their node; routes and firewalls are fine; a chaos test was aborted",
			Shows:  shows{Cause: "uplink-shaped"},
			Inject: scripted(node, "tc qdisc add dev eth0 root handle 1: htb default 0; tc class add dev eth0 parent 1: classid 1:10 htb rate 8bit burst 1; tc qdisc add dev eth0 parent 1:10 handle 10: pfifo limit 1; tc filter add dev eth0 parent 1: protocol ip u32 match ip src "+pods4+" flowid 1:10"),
		},
		{
			Name: "peer-node-down", About: "one other node is unreachable: its pods, its ports, ping",
			Shows:  shows{Cause: "peer-down"},
			Inject: scripted(other, "nft 'add table inet lab; add chain inet lab in { type filter hook prerouting priority -300; iifname eth0 drop; }; add chain inet lab out { type filter hook output priority -300; oifname eth0 drop; }'"),
		},
	}
}

// filtered adds rules for IPv4 at a hook of a node.
func filtered(node, hook string, rules ...string) func(context.Context, lab) error {
	script := []string{"add table ip lab",
		"add chain ip lab " + hook + " { type filter hook " + hook + " priority -300; }"}
	for _, rule := range rules {
		script = append(script, "add rule ip lab "+hook+" "+rule)
	}
	return scripted(node, "nft '"+strings.Join(script, "; ")+"'")
}

// unrouted makes the network between the nodes drop pod traffic, like most networks. The sandbox's router knows the
// pods, and would forward what the nodes have no route for.
func unrouted(ctx context.Context, l lab) error {
	for _, m := range members() {
		if err := l.on(ctx, m.Name, "mac=$(ip neigh show "+fabric4+` dev eth0 | sed 's/.*lladdr \([^ ]*\).*/\1/')
nft "add table ip lab; add chain ip lab underlay { type filter hook prerouting priority -300; }
add rule ip lab underlay ether saddr $mac ip saddr != `+fabric4+" ip daddr "+pods4+` drop"`); err != nil {
			return fmt.Errorf("removing the router's routes to pods: %w", err)
		}
	}
	return nil
}

// birdConfig is where confd writes, in calico-node's container. calicosRoot finds that container's root in a script.
const (
	birdConfig  = "/etc/calico/confd/config/bird.cfg"
	calicosRoot = `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = calico-node ] && [ -d $p/root/etc/calico/confd/config ]; then root=$p/root; fi; done; [ -n "$root" ] || { echo calico-node does not run; exit 1; }; `
)

// rendered replaces confd: it writes BIRD's configuration and makes BIRD read it.
func rendered(m member, s setting, but *strings.Replacer) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		text, err := render("bird.cfg", s)
		if err != nil {
			return err
		}
		changed := but.Replace(text)
		// calico-node may be restarting: its probe kills it while BIRD is dead.
		return until(ctx, "BIRD of "+m.Name+" to take its configuration", func(ctx context.Context) (bool, error) {
			err := l.on(ctx, m.Name, "echo "+base64Of([]byte(changed))+" | base64 -d >/var/lib/calico/sandbox/bird.cfg; "+
				calicosRoot+"cat /var/lib/calico/sandbox/bird.cfg >$root"+birdConfig+"; "+signalTo("bird", "HUP"))
			return err == nil, err
		})
	}
}

// moved registers another address for a node, as calico-node does when it picks one, and updates both BIRDs, as confd
// does. A BIRD ignores a peer with its own address.
func moved(m member, to string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		if err := l.register(ctx, m, to); err != nil {
			return err
		}
		for _, on := range members() {
			s := settingOf(on)
			at := netip.MustParsePrefix(to).Addr()
			if on.Name == m.Name {
				s.Me.IP4 = at
			}
			for i := range s.Peers {
				if s.Peers[i].Name == m.Name {
					s.Peers[i].IP4 = at
				}
			}
			if s.Me.IP4 == s.Peers[0].IP4 {
				s.Peers = nil
			}
			if err := rendered(on, s, strings.NewReplacer())(ctx, l); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l lab) register(ctx context.Context, m member, address string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"projectcalico.org/IPv4Address":%q}}}`, address)
	_, err := l.kube.CoreV1().Nodes().Patch(ctx, m.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("registering %s for %s: %w", address, m.Name, err)
	}
	return nil
}

// gone is a node without a machine.
var gone = member{Name: "node-gone", IP4: netip.MustParseAddr("10.88.0.99")}

// ghost creates a Node like that of a machine that was removed.
func ghost(ctx context.Context, l lab) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: gone.Name, Annotations: map[string]string{"projectcalico.org/IPv4Address": gone.IP4.String() + "/24"},
		Labels: map[string]string{corev1.LabelOSStable: "windows"}, // keeps DaemonSets away from it
	}}
	if _, err := l.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s: %w", gone.Name, err)
	}
	status := fmt.Sprintf(`{"metadata":{"labels":{"kubernetes.io/os":"linux"}},"status":{"addresses":[{"type":"InternalIP","address":%q}],"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`, gone.IP4)
	if _, err := l.kube.CoreV1().Nodes().Patch(ctx, gone.Name, types.StrategicMergePatchType, []byte(status),
		metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("giving %s a status: %w", gone.Name, err)
	}
	return nil
}

// withGhost makes it a peer, as in the BIRD of every node of the mesh.
func withGhost(m member) func(context.Context, lab) error {
	s := settingOf(m)
	s.Peers = append(s.Peers, gone)
	return rendered(m, s, strings.NewReplacer())
}

// restarted restarts every session of both nodes. It speaks to BIRD's socket, because birdc is not on the nodes.
func restarted(ctx context.Context, l lab) error {
	for _, m := range members() {
		if err := l.tellBIRD(ctx, m, "restart all"); err != nil {
			return fmt.Errorf("restarting the sessions of %s: %w", m.Name, err)
		}
	}
	return nil
}

func (l lab) tellBIRD(ctx context.Context, m member, command string) error {
	pid, err := nodePID(l.layout, m.Name)
	if err != nil {
		return err
	}
	return until(ctx, "BIRD of "+m.Name, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/%d/root/run/calico/bird.ctl", pid))
		if err != nil {
			return false, err
		}
		defer c.Close()
		deadline, _ := ctx.Deadline()
		buf := make([]byte, 4096)
		if err := c.SetDeadline(deadline); err != nil {
			return false, err
		}
		for _, say := range []string{"", command + "\n"} { // BIRD sends a greeting first
			if _, err := c.Write([]byte(say)); err != nil {
				return false, err
			}
			if _, err := c.Read(buf); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// restored removes whatever these faults leave on both nodes, and waits until the routes are in the kernel again.
func restored(ctx context.Context, l lab) error {
	if err := l.kube.CoreV1().Nodes().Delete(ctx, gone.Name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", gone.Name, err)
	}
	for _, m := range members() {
		err := errors.Join(
			l.on(ctx, m.Name, start("bird")+`
tc qdisc del dev eth0 root 2>/dev/null || true
for table in 'inet lab' 'ip lab' 'ip filter'; do nft delete table $table 2>/dev/null || true; done
for link in ens224 br-1a2b3c4d5e6f; do ip link del $link 2>/dev/null || true; done`),
			l.register(ctx, m, m.IP4.String()+"/24"),
			rendered(m, settingOf(m), strings.NewReplacer())(ctx, l),
		)
		if err != nil {
			return err
		}
	}
	if err := restarted(ctx, l); err != nil { // BIRD waits longer after each attempt
		return err
	}
	for _, m := range members() {
		other := settingOf(m).Peers[0]
		// A BIRD that waits for peers after a start waits with all routes, so one is enough.
		if err := l.on(ctx, m.Name, "until ip route show "+other.Block4.String()+" proto bird | grep -q via; do sleep 0.2; done"); err != nil {
			return fmt.Errorf("waiting for the routes: %w", err)
		}
	}
	return nil
}
