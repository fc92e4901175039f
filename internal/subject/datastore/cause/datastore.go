package cause

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// datastoreNotReady is Calico's own switch.
var datastoreNotReady = &diagnose.Rule{
	ID: "datastore-not-ready", Layer: diagnose.LayerDatastore,
	Title: "Calico's datastore is marked not ready (datastoreReady: false)",
	Doc: `ClusterInformation's datastoreReady is switched off for a migration (calicoctl datastore migrate lock) and for upgrades between data models, and on again afterwards. While it is off, the CNI plugin answers every pod "Calico is currently not ready to process requests", and Felix programs nothing: it ends, starts anew and waits, and calls itself live and ready meanwhile, so a Ready calico-node means nothing here. It concerns every node at once; pods that run go on as they are.
In a migration to native resources of the group projectcalico.org (DatastoreMigration, from v3.32 on) the switch of the old group stays off on purpose; switched on by hand, two halves of the cluster would write to two datastores.
Told from a datastore out of reach by datastore-latency, which is fine here.`,
	Fix: probe.Fix{
		Says: "See that no migration is at work, and switch it on.",
		Manifest: []string{
			"kubectl get clusterinformations.crd.projectcalico.org default -o yaml --show-managed-fields  # who switched it off, and when",
		},
		OnlyIf: []probe.Conditional{
			{If: "no migration is at work",
				Manifest: []string{`kubectl patch clusterinformations.crd.projectcalico.org default --type merge -p '{"spec":{"datastoreReady":true}}'`}},
		},
		Radius: "every node of the cluster: pods get networks again at once",
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, cni.CNIToken.ID},
	Explains: []string{"felix-waits", "start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		off := f.With(facts.CheckDatastoreReady, facts.DatastoreReady, false)
		if len(off) == 0 {
			return nil
		}
		if migration := off[0].Facts.Str(facts.Migration); migration != "" {
			return []diagnose.Case{{
				Says: fmt.Sprintf("Calico's datastore is locked by DatastoreMigration %s, so no new pod gets a network on any node", migration),
				For:  diagnose.Proves(off), Fix: &migrating,
				Covers: append(diagnose.Covers(felix.FelixReady.ID, start.InitStall.ID), evidence.CalicoDown...),
			}}
		}
		return []diagnose.Case{{Says: "Calico's datastore is marked not ready (ClusterInformation, datastoreReady false), so no pod gets a network on any node", For: diagnose.Proves(off), Covers: append(diagnose.Covers(felix.FelixReady.ID, start.InitStall.ID), evidence.CalicoDown...)}}
	},
}

// migrating is what to do while Calico moves its resources to another group: never to switch the old
// one on.
var migrating = probe.Fix{
	Says: "Let the migration end: see what it waits for. Never switch datastoreReady on by hand meanwhile.",
	Manifest: []string{
		"kubectl get datastoremigrations.migration.projectcalico.org -o wide  # phase and message",
		"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list | grep CALICO_API_GROUP  # the phase Converged waits for it to be projectcalico.org/v3",
		"kubectl -n {namespace} logs deploy/calico-kube-controllers --tail=50",
	},
	Radius: evidence.OnlyReads,
}

// apiCutOff is a node that does not reach an API server that is well.
var apiCutOff = &diagnose.Rule{
	ID: "api-cut-off", Layer: diagnose.LayerDatastore, Open: true,
	Title: "this node cannot reach the API server, which answers others",
	Doc: `No API server answers this node, neither by the service's address nor directly, while the one who asks has it answer: what lies between them drops or refuses this node's packets: a firewall or security group on TCP 6443, a route, or an API server that died behind a load balancer.
Told from lost rules of kube-proxy by the endpoints, which answer there; from an API server that is down by the API's own answers in this very run.`,
	Fix: probe.Fix{
		Says: "Open the way from this node to the API servers' port.",
		Manifest: []string{
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes  # the addresses it has to reach",
			"ssh {node} \"ip route get {server}; sudo nft list ruleset | grep -n {server}; sudo iptables-save | grep -n {server}\"",
		},
		Radius: evidence.OnlyReads,
	},
	Explains: []string{"start-outlasts-budget", "felix-waits", "felix-down", "kube-proxy-stuck"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		direct, good := evidence.ToServers(f.Of(datastore.DatastoreLatency.ID)), 0
		var failed []diagnose.Finding
		for _, r := range direct {
			switch reason := diagnose.ReasonOf(r); {
			case r.Status != probe.Fail:
				good++
			case reason != "unhealthy" && reason != "alert":
				failed = append(failed, r)
			}
		}
		if len(failed) == 0 || good > 0 {
			return nil
		}
		at := failed[0].Facts.Str(probe.FactAddress)
		host := at
		if addr, err := netip.ParseAddrPort(at); err == nil {
			host = addr.Addr().String()
		}
		c := diagnose.Case{
			Says: fmt.Sprintf("this node does not reach the API server: %s", failed[0].Saw),
			Args: map[string]diagnose.Arg{"server": diagnose.AddressArg(host)},
			For:  diagnose.Suggests(failed), Covers: evidence.WithoutDatastore,
		}
		c.For = append(c.For, diagnose.Shows(evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))...)
		answering := f.Elsewhere(datastore.DatastoreLatency.ID)
		for _, r := range f.All {
			if r.Way == "api" && diagnose.IsAnswered(r.Status) { // it has just been asked
				answering = append(answering, r)
				break
			}
		}
		if len(answering) > 0 && answering[0].Status != probe.Fail || len(answering) > 1 {
			c.Says += ", while it answers others"
			c.For = append(c.For, diagnose.Clue{Finding: answering[len(answering)-1], Weight: diagnose.Hint})
		}
		if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
			c.Against = diagnose.Suggests(late[:1])
		}
		return []diagnose.Case{c}
	},
}

// apiUnhealthy is an API server that says itself that it is ill.
var apiUnhealthy = &diagnose.Rule{
	ID: "api-unhealthy", Layer: diagnose.LayerDatastore, Title: "the API server reports that it is unhealthy",
	Doc: `/readyz of the API server names what is wrong, most often its etcd ("[-]etcd failed"): a lost leader, a full disk, a certificate. A load balancer without a living server behind it answers 502 or 503. Every node suffers alike: leases, controllers and starts of calico-node get slow or fail ("etcdserver: request timed out", "leader changed").
Told from a node that is cut off by the answer, which did come.`,
	Fix: probe.Fix{
		Says:     "Restore what /readyz reports as failed, mostly etcd: start a member that is down, or free its disk.",
		Manifest: []string{"kubectl get --raw '/readyz?verbose'", "kubectl -n kube-system logs -l component=etcd --tail=50"},
		Radius:   evidence.OnlyReads,
	},
	Explains: []string{"start-outlasts-budget", "felix-waits", "api-slow"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var ill []diagnose.Finding
		for _, r := range f.With(datastore.DatastoreLatency.ID, probe.FactReason, "unhealthy") {
			if diagnose.IsBad(r.Status) {
				ill = append(ill, r)
			}
		}
		if len(ill) == 0 {
			return nil
		}
		return []diagnose.Case{{Says: "the datastore answers that it is not well: " + ill[0].Saw, For: diagnose.Proves(ill),
			Covers: evidence.WithoutDatastore}}
	},
}

// slowAnswer is from when an answer of the API server or etcd is slow, in ms: what a
// start of calico-node makes twenty of would take twenty seconds.
const slowAnswer = 1000

// apiSlow is a server that is near and slow.
var apiSlow = &diagnose.Rule{
	ID: "api-slow", Layer: diagnose.LayerDatastore, Title: "the API server is slow, although the network to it is fast",
	Doc: `TCP connects in milliseconds and the first byte of an answer takes a second and more: the server, or the etcd behind it, is slow (disk, load, a defragmentation), not the way there. Every node feels it.
Told from distance, which the handshake of TCP shows too; from a node short of CPU by the node's load, for there its own programs are late.`,
	Fix: probe.Fix{
		Says: "Take load off the API server, or give etcd a faster disk. The metrics show which of the two is slow.",
		Manifest: []string{"kubectl get --raw '/readyz?verbose'",
			"kubectl get --raw /metrics | grep -E '^(apiserver_current_inflight_requests|etcd_request_duration_seconds_sum)'"},
		Radius: evidence.OnlyReads,
	},
	Explains: []string{"start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var slow []diagnose.Finding
		for _, r := range f.Of(datastore.DatastoreLatency.ID) {
			connect, _ := r.Facts.Num(probe.FactConnect)
			if answer, ok := r.Facts.Num(datastore.FactAnswer); ok && answer > slowAnswer && connect < answer/10 {
				slow = append(slow, r)
			}
		}
		if len(slow) == 0 {
			return nil
		}
		c := diagnose.Case{Says: "the API server is near and slow: " + slow[0].Saw, For: diagnose.Suggests(slow),
			Covers: diagnose.Covers(start.StartupBudget.ID, facts.CheckCalicoPod, facts.CheckCalicoBudget)}
		if load := evidence.Loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = diagnose.Hints(load)
		}
		return []diagnose.Case{c}
	},
}

// etcdRefuses is an etcd that does not take Calico's certificate.
var etcdRefuses = &diagnose.Rule{
	ID: "etcd-certificate", Layer: diagnose.LayerDatastore, Title: "Calico's etcd rejects the certificate, or one has expired",
	Doc: `Where Calico keeps its data in an etcd of its own, Felix, the CNI plugin and calico-node's start show it a client certificate (the secret calico-etcd-secrets; on the node /etc/cni/net.d/calico-tls). etcd refuses a certificate that has expired, or that is of another authority: no pod gets a network, and a start does not end.
Told from an etcd out of reach by its answer.`,
	Fix: probe.Fix{
		Says: "Make a new certificate, put it into the secret, and let calico-node write it to the nodes.",
		Manifest: []string{
			"kubectl -n kube-system get secret calico-etcd-secrets -o jsonpath='{.data.etcd-cert}' | base64 -d | openssl x509 -noout -dates -issuer",
		},
		OnlyIf: []probe.Conditional{
			{If: "the secret has been renewed",
				Manifest: []string{"kubectl -n kube-system rollout restart ds/{daemonset} deploy/calico-kube-controllers"}},
		},
		Radius: "calico-node restarts on every node, one after the other; running pods keep their routes",
	},
	Explains: []string{"felix-waits", "start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		refused := f.With(datastore.DatastoreLatency.ID, probe.FactReason, "certificate-refused")
		var old []diagnose.Finding
		for _, r := range f.Failed(datastore.DatastoreLatency.ID) {
			if r.Facts.Str(probe.FactExpires) != "" && diagnose.ReasonOf(r) == "" {
				old = append(old, r)
			}
		}
		if len(refused)+len(old) == 0 {
			return nil
		}
		all := append(old, refused...)
		return []diagnose.Case{{Says: "certificates of the datastore are not good: " + all[0].Saw, For: diagnose.Proves(all),
			Covers: evidence.WithoutDatastore}}
	},
}

// typhaUnreachable is a Felix cut off from what it listens to.
var typhaUnreachable = &diagnose.Rule{
	ID: "typha-unreachable", Layer: diagnose.LayerDatastore, Open: true, Title: "no Typha is reachable from this node",
	Doc: `Where Typha is used, Felix and confd hear of everything through it (TCP 5473), and end when none answers ("Failed to connect to Typha, giving up after timeout"). Refused: nothing listens, Typha's pods are not up. No answer: a firewall on 5473, which a new node pool often lacks, or frozen Typhas. The API may be fine all the time.
Told from a datastore out of reach by datastore-latency.`,
	Fix: probe.Fix{
		Says: "See whether Typha runs, and open TCP 5473 from every node to the nodes it runs on.",
		Manifest: []string{
			"kubectl get pods -A -l k8s-app=calico-typha -o wide", "kubectl -n {namespace} logs -l k8s-app=calico-typha --tail=30",
		},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, link.NodePing.ID},
	Explains: []string{"felix-waits", "start-outlasts-budget", "felix-down"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		dead := f.Failed(datastore.TyphaReach.ID)
		if len(dead) == 0 {
			return nil
		}
		c := diagnose.Case{Says: fmt.Sprintf("none of %d Typhas answers this node: %s", len(dead), dead[0].Saw),
			For: diagnose.Suggests(dead), Covers: append(diagnose.Covers(felix.FelixReady.ID, bgp.BirdConfig.ID),
				evidence.CalicoDown...)}
		if f.Fine(datastore.DatastoreLatency.ID) { // so it is not the node's network as a whole
			c.For = append(c.For, diagnose.Hints(f.Of(datastore.DatastoreLatency.ID)[:1])...)
		}
		if late := evidence.Starved(f); len(late) > 0 {
			c.Against = diagnose.Suggests(late[:1])
		}
		return []diagnose.Case{c}
	},
}

// cniTokenExpired is a credential that nobody has renewed.
var cniTokenExpired = &diagnose.Rule{
	ID: "cni-token-expired", Layer: diagnose.LayerDatastore, Title: "the token of Calico's CNI plugin has expired",
	Doc: `calico-node writes a token for the CNI plugin (calico-kubeconfig) and renews it long before its end. A calico-node that does not run, or has no right to make tokens, does not; then no pod gets a network: "error getting ClusterInformation: connection is unauthorized: Unauthorized". Running pods do not notice.
Told from a clock that is wrong by node-clock; from a token of another cluster by its issuer, which the check shows; from lost rights by its dates.`,
	Fix: probe.Fix{
		Says: "Let calico-node on this node write a new one; if it does not, look for its right to make one.",
		Manifest: []string{evidence.RestartCalico,
			"kubectl auth can-i create serviceaccounts/calico-cni-plugin --subresource=token -n {namespace} --as system:serviceaccount:{namespace}:{daemonset}  # the account calico-cni-plugin is of v3.26 and later; before it, serviceaccounts/{daemonset}"},
		Radius: evidence.RestartRadius,
	},
	RuledOut: []string{host.NodeClock.ID, datastore.DatastoreLatency.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		old := f.Failed(cni.CNIToken.ID)
		if len(old) == 0 {
			return nil
		}
		saw, _, _ := strings.Cut(old[0].Saw, ": ") // what follows of it stands before
		c := diagnose.Case{Says: "no new pod gets a network on {node}: " + saw, For: diagnose.Proves(old), Covers: evidence.PodsUnconnected}
		if skew := f.Failed(host.NodeClock.ID); len(skew) > 0 {
			c.Against = diagnose.Suggests(skew) // by a clock that is wrong
		}
		return []diagnose.Case{c}
	},
}
