package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kernelLacks is a kernel without what Felix or kube-proxy needs.
var kernelLacks = &diagnose.Rule{
	ID: "kernel-lacks", Layer: diagnose.LayerKernel,
	Title: "the kernel lacks a module or feature that Felix or kube-proxy needs",
	Doc: `iptables, ipset, nft and netlink ask the kernel for modules, which it loads when they are first needed: xt_set, xt_mark, ip_set and its types, iptable_raw, nf_tables, vxlan, ipip, wireguard. A kernel that was built without one (small images, appliances, kernels of a cloud or of a Raspberry Pi), whose package of extra modules is missing (linux-modules-extra), or that was updated without a reboot, so that the modules of the running one are gone from /lib/modules, has not got it; where loading is forbidden (kernel.modules_disabled, a blacklist) it gets none. Felix writes the message, tries again, and ends.
Told from rules that are refused for another reason by the words of the kernel's own tools; a module that has been loaded since does not count, nor does a warning beside a command that worked.`,
	Fix: probe.Fix{
		Says: "Load the module, and have it loaded at each boot; where the kernel has none, install the package that has it, or boot the kernel whose modules are installed.",
		Manifest: []string{
			"ssh {node} \"uname -r; ls /lib/modules; sysctl kernel.modules_disabled; grep -rs -e blacklist -e 'install .* /bin/false' /etc/modprobe.d\"",
			"ssh {node} modinfo {module}",
		},
		OnlyIf: []probe.Conditional{
			{If: "modinfo finds it", Manifest: []string{"ssh {node} sudo modprobe {module}"}},
		},
		Radius: "reading changes nothing; a module that is loaded changes nothing of what runs, and Felix tries again by itself",
	},
	RuledOut: []string{datastore.DatastoreLatency.ID},
	Explains: append([]string{"calico-ends", "felix-waits", "felix-dataplane-late", "tunnel-device"},
		evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range evidence.Writes(f, logs.SaysKernelLacks) {
			module := r.Facts.Str(logs.FactModule)
			c := diagnose.Case{About: module,
				Args:   map[string]diagnose.Arg{"module": diagnose.CheckedArg(module, diagnose.IsWord(module), "MODULE")},
				Says:   fmt.Sprintf("the kernel of {node} lacks %s, which Felix needs: %s", module, evidence.QuotedLine(r)),
				For:    evidence.Written(f, []diagnose.Finding{r}),
				Covers: append(diagnose.Covers(logs.CalicoErrors.ID, overlay.OverlayTunnels.ID), evidence.CalicoDown...)}
			if tunnels := f.Failed(overlay.OverlayTunnels.ID); len(tunnels) > 0 &&
				slices.Contains([]string{"vxlan", "ipip"}, module) {
				c.For = append(c.For, diagnose.Hints(tunnels)...)
				c.Covers = append(c.Covers, evidence.OverPods(f)...)
			}
			out = append(out, c)
		}
		return out
	},
}

// tablesUnreadable is a program whose rules keep Felix from its own.
var tablesUnreadable = &diagnose.Rule{
	ID: "tables-unreadable", Layer: diagnose.LayerKernel,
	Title: "iptables cannot read its tables: another program put native nftables rules there",
	Doc: `iptables-nft keeps its rules in the tables filter, nat, mangle and raw of nft, and cannot read a table in which another program (a VPN client, a firewall, a script) has put rules of nft's own: a set, a match or an expression that iptables does not have. It says so and ends well. Felix reads a table before it writes, so it writes none of its rules any more, also where its own are in nft's form and it only wants to clean up: it is not ready, and policies and new pods stay as they were. kube-proxy's rules in that form are stopped the same way.
Told from a missing kernel module and from a held lock by Felix' own words.`,
	Fix: probe.Fix{
		Says: "Find which program wrote them, and have it use a table of its own name, or iptables; then take them away.",
		Manifest: []string{
			"ssh {node} \"sudo iptables-nft-save >/dev/null; sudo ip6tables-nft-save >/dev/null\"  # which table it cannot read",
			"ssh {node} \"sudo nft -a list table ip filter; sudo nft -a list table ip nat\" | grep -v -e cali -e KUBE",
		},
		OnlyIf: []probe.Conditional{
			{If: "that program has been changed, or is gone", Manifest: []string{
				"ssh {node} sudo nft delete rule ip TABLE CHAIN handle NUMBER  # as the list above shows it"}},
		},
		Radius: "reading changes nothing; what a rule is for ends with it, and Felix goes on by itself within seconds",
	},
	Explains: append([]string{"calico-ends", "felix-waits", "felix-dataplane-late", "felix-stuck", "node-differs"},
		evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines := evidence.Writes(f, logs.SaysTables)
		if len(lines) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "rules on {node} that iptables cannot read keep Felix from writing its own: " + evidence.QuotedLine(lines[0]),
			For:  evidence.Written(f, lines), Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...),
		}}
	},
}

// bpfRefused is an eBPF data plane that the kernel does not take.
var bpfRefused = &diagnose.Rule{
	ID: "bpf-refused", Layer: diagnose.LayerKernel,
	Title: "the eBPF data plane is configured, but Felix or the kernel refuses it",
	Doc: `With bpfEnabled (FelixConfiguration, or linuxDataplane BPF of the operator) Felix makes services and policy with programs in the kernel, and kube-proxy is mostly taken away. A kernel that is too old (5.10; on RHEL 4.18.0-305) makes Felix go on with iptables, and write so once at its start: then nobody makes services. Where the file system of eBPF is not mounted, or maps and programs are not let in (lockdown, a missing capability, a verifier that refuses a program, no memory that may be locked), Felix ends at each start, or leaves single pods without policy.
Told from a Felix that hangs by its own line.`,
	Fix: probe.Fix{
		Says: "Give the node a kernel that has it, mount /sys/fs/bpf, or switch eBPF off and give kube-proxy back first.",
		Manifest: []string{
			"ssh {node} \"uname -r; mount -t bpf; mount -t cgroup2; cat /sys/kernel/security/lockdown; sysctl kernel.unprivileged_bpf_disabled\"",
			"kubectl get felixconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.bpfEnabled}'",
			"kubectl -n kube-system get ds kube-proxy -o wide  # who makes services where Felix does not",
		},
		Operator: []string{"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.linuxDataplane}'"},
		OnlyIf: []probe.Conditional{
			{If: "the file system is not mounted", Manifest: []string{"ssh {node} sudo mount -t bpf bpffs /sys/fs/bpf"}},
		},
		Radius: "reading changes nothing; a mount changes nothing of what runs; switching the data plane over cuts connections on every node",
	},
	Explains: append([]string{"calico-ends", "felix-waits", "service-path-broken", "kube-proxy-dead"},
		evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		off, failed := evidence.Writes(f, logs.SaysBPFOff), evidence.Writes(f, logs.SaysBPFFailed)
		mount, program := evidence.Writes(f, logs.SaysBPFMount), evidence.Writes(f, logs.SaysBPFVerifier)
		c := diagnose.Case{Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...)}
		switch {
		case len(off) > 0:
			c.Says = "eBPF is configured, and Felix on {node} does without it: " + evidence.QuotedLine(off[0])
			c.For = diagnose.Proves(off)
			c.Covers = diagnose.Covers(logs.CalicoErrors.ID, service.ServiceClusterIP.ID, service.ServiceNodePort.ID,
				service.KubeProxyHealth.ID, dns.DNSCluster.ID)
		case len(failed) > 0:
			c.Says = "eBPF is configured, and Felix on {node} ends over it: " + evidence.QuotedLine(failed[0])
			c.For = append(evidence.Written(f, failed), diagnose.Shows(mount, program)...)
		case len(mount) > 0:
			c.Says = "eBPF is configured, and a file system that it needs is not mounted on {node}: " + evidence.QuotedLine(mount[0])
			c.For = append(evidence.Written(f, mount), diagnose.Shows(program)...)
		case len(program) > 0:
			c.Says = "the kernel of {node} refuses a program of Felix's: " + evidence.QuotedLine(program[0])
			c.For = evidence.Written(f, program)
		default:
			return nil
		}
		return []diagnose.Case{c}
	},
}

// typhaCertificate is a connection to Typha that TLS refuses.
var typhaCertificate = &diagnose.Rule{
	ID: "typha-certificate", Layer: diagnose.LayerDatastore, Title: "Typha and calico-node reject each other's certificate",
	Doc: `Between Typha and Felix and confd both ends show a certificate: each has to be of the authority that the other is given (ConfigMap tigera-ca-bundle, or a file), still be valid, and have the name that the other is told to want (TyphaCN or TyphaURISAN at Felix, ClientCN or ClientURISAN at Typha). After a renewal of the authority of which only one end has heard, an expired certificate, or secrets copied from another cluster, TCP 5473 is open, Typha runs, and no Felix gets beyond the handshake: it ends with "Failed to connect to Typha, giving up after timeout".
Told from a Typha that is not reached by the words of TLS; who refuses is told by "remote error", which is Typha's answer.`,
	Fix: probe.Fix{
		Says: "Give both ends certificates of the same authority; who has the old one has to be started anew.",
		Manifest: []string{
			"kubectl get secrets -A | grep -E 'typha-certs|node-certs|NAME'; kubectl get configmaps -A | grep -E 'tigera-ca|typha-ca|NAME'",
			"kubectl -n {namespace} get secret typha-certs -o jsonpath='{.data.tls\\.crt}' | base64 -d | openssl x509 -noout -subject -issuer -dates",
			"kubectl -n {namespace} get secret node-certs -o jsonpath='{.data.tls\\.crt}' | base64 -d | openssl x509 -noout -subject -issuer -dates",
			"kubectl -n {namespace} logs -l k8s-app=calico-typha --tail=30",
		},
		Operator: []string{"kubectl get tigerastatus calico -o yaml  # the operator renews both by itself, unless it does not run"},
		OnlyIf: []probe.Conditional{
			{If: "the secrets fit together, and only the pods are older",
				Manifest: []string{"kubectl -n {namespace} rollout restart deployment calico-typha", evidence.RestartCalico}},
		},
		Radius: "reading changes nothing; Felix goes on with what it knows while Typha is started anew; " + evidence.RestartRadius,
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, host.NodeClock.ID},
	Explains: append([]string{"calico-ends", "felix-waits", "typha-unreachable", "bird-unfed"}, evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines, refused := evidence.Writes(f, logs.SaysTyphaCertificate), evidence.Writes(f, logs.SaysTyphaRefuses)
		if len(lines) == 0 && len(refused) > 0 {
			return []diagnose.Case{{Says: "the Typha on {node} and its clients refuse each other's certificates: " + evidence.QuotedLine(refused[0]),
				For: diagnose.Suggests(refused), Covers: diagnose.Covers(logs.CalicoErrors.ID)}}
		}
		if len(lines) == 0 {
			return nil
		}
		who := "calico-node on {node} refuses Typha's certificate"
		switch {
		case lines[0].Facts[logs.FactNoFile] == true:
			who = "calico-node on {node} has no certificate to show Typha"
		case lines[0].Facts[logs.FactRemote] == true:
			who = "Typha refuses the certificate of calico-node on {node}"
		}
		c := diagnose.Case{Says: who + ": " + evidence.QuotedLine(lines[0]),
			For:    append(evidence.Written(f, lines), diagnose.Shows(refused)...),
			Covers: append(diagnose.Covers(logs.CalicoErrors.ID, datastore.TyphaReach.ID), evidence.CalicoDown...)}
		if skew := f.Failed(host.NodeClock.ID); len(skew) > 0 {
			c.Against = diagnose.Suggests(skew[:1])
		}
		return []diagnose.Case{c}
	},
}

// typhaStale is a Typha that answers and does not serve.
var typhaStale = &diagnose.Rule{
	ID: "typha-stale", Layer: diagnose.LayerDatastore, Title: "Typha is too old, or keeps dropping calico-node",
	Doc: `Felix and confd take everything from Typha, in a form that both have to know. In an upgrade Typha has to be the newer one: an old one that stayed (its Deployment was left out, its rollout hangs) lacks what calico-node asks for, and the connection is ended after the greeting. A Typha that is short of CPU or memory, that is killed again and again, or whose client is too slow to take what it sends, ends connections too: calico-node connects anew each time and learns late of new pods and policies.
Told from Typhas that do not answer by the connection, which opens; from a refused certificate by the greeting, which is read.`,
	Fix: probe.Fix{
		Says: "Bring Typha to the version of calico-node, before it; where it drops clients, look at its log and its limits, and have one more of it.",
		Manifest: []string{
			"kubectl get deployments -A -l k8s-app=calico-typha -o custom-columns=NAME:.metadata.name,READY:.status.readyReplicas,IMAGE:.spec.template.spec.containers[0].image",
			"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.containers[0].image}'",
			"kubectl get pods -A -l k8s-app=calico-typha -o wide; kubectl -n {namespace} logs -l k8s-app=calico-typha --tail=200 | grep -i -e 'fell behind' -e disconnecting -e 'Too long since'",
		},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{datastore.TyphaReach.ID},
	Explains: []string{"felix-waits", "bird-unfed"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		old, drops := evidence.Writes(f, logs.SaysTyphaOld), evidence.Writes(f, logs.SaysTyphaDrops)
		sheds := evidence.Writes(f, logs.SaysTyphaSheds)
		c := diagnose.Case{Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...)}
		switch {
		case len(old) > 0:
			c.Says, c.For = "Typha is older than what calico-node on {node} needs: "+evidence.QuotedLine(old[0]), diagnose.Proves(old)
		case len(drops) > 0 && len(evidence.Writes(f, logs.SaysTyphaCertificate)) == 0:
			n, _ := drops[0].Facts.Num(probe.FactTimes)
			c.Says = fmt.Sprintf("Typha has ended the connection of calico-node on {node} %.0f times: %s", n, evidence.QuotedLine(drops[0]))
			c.For = diagnose.Suggests(drops)
		case len(sheds) > 0:
			c.Says, c.For = "the Typha on {node} ends connections of clients that are too slow: "+evidence.QuotedLine(sheds[0]), diagnose.Suggests(sheds)
			c.Covers = diagnose.Covers(logs.CalicoErrors.ID)
		default:
			return nil
		}
		return []diagnose.Case{c}
	},
}

// cniTokenUnrenewed is a token that still holds, and that nobody will renew.
var cniTokenUnrenewed = &diagnose.Rule{
	ID: "cni-token-unrenewed", Layer: diagnose.LayerDatastore, Later: true,
	Title: "calico-node does not renew the CNI plugin's token",
	Doc: `calico-node makes a new token for the CNI plugin some hours before the old one ends. Where the API server refuses it one (its account calico-cni-plugin is gone, calico-node lacks the right to create serviceaccounts/token, its own token is refused), it writes so every few seconds and goes on. Pods get networks until the old token has expired, a day at most; after that none does, on every node.
Told from a token that has expired by its dates.`,
	Fix: probe.Fix{
		Says: "Give calico-node what the line says it lacks: the account, or the right.",
		Manifest: append(slices.Clone(evidence.AccountsMade),
			"kubectl auth can-i create serviceaccounts/calico-cni-plugin --subresource=token -n {namespace} --as system:serviceaccount:{namespace}:{daemonset}"),
		Radius: "reading changes nothing; what is put back takes nothing away, and calico-node tries again by itself",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines := evidence.Writes(f, logs.SaysCNIToken)
		ending := diagnose.Keep(f.Of(cni.CNIToken.ID), func(r diagnose.Finding) bool { return r.Status == probe.Warn })
		if len(f.Failed(cni.CNIToken.ID)) > 0 || len(lines)+len(ending) == 0 {
			return nil
		}
		c := diagnose.Case{Says: "no pod of {node} gets a network once the CNI plugin's token has expired: ",
			For:    slices.Concat(diagnose.Suggests(lines), diagnose.Suggests(ending)),
			Covers: diagnose.Covers(logs.CalicoErrors.ID, cni.CNIToken.ID)}
		if len(lines) > 0 {
			c.Says += evidence.QuotedLine(lines[0])
		} else {
			c.Says += ending[0].Saw
		}
		return []diagnose.Case{c}
	},
}
