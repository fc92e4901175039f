package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// registryRefuses is a node that cannot pull images, for a reason that is no image's.
var registryRefuses = &Rule{
	ID: "registry-refuses", Layer: LayerRuntime,
	Title: "the node cannot pull images: the registry is unreachable or refuses",
	Doc: `Pods wait with ErrImagePull or ImagePullBackOff, and the kubelet quotes the runtime: the registry's name is not resolved ("no such host", "server misbehaving"), no connection comes about ("i/o timeout", "connection refused"), a proxy is in the way ("proxyconnect"), its certificate is not trusted ("x509"), it speaks HTTP ("server gave HTTP response to HTTPS client"), it has answered too often ("429 Too Many Requests", "toomanyrequests"), wants a login, or is ill itself (500 to 504). The runtime asks from the node, by the node's own DNS, routes and certificates: neither the cluster's DNS nor Calico has a part in it. Pods whose image is there start.
Told from an image that does not exist or that its owner may not have by the registry's words; those are the pod's matter, as is one image of a registry whose name leads nowhere.`,
	Fix:      pullFixes[facts.RefusedUnreachable],
	RuledOut: []string{dns.DNSExternal.ID, link.NodeUplink.ID, host.NodeClock.ID},
	Explains: []string{"probe-image"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range waitingPods(f, facts.StartsImage) {
			refusal := r.Facts.Str(facts.Refusal)
			registries := listOf(r, facts.Registries)
			if len(registries) == 0 {
				continue
			}
			c := Case{About: registries[0], Args: map[string]Arg{"registry": registryArg(registries[0])}}
			if facts.RefusedByWay(refusal) && len(registries) > 1 {
				c.About = ""
			}
			fix := pullFixes[refusal]
			c.Fix = &fix
			c.Says = fmt.Sprintf("{node} pulls no image of %s: %s: %s; %s", strings.Join(registries, ", "), refusedWords[refusal],
				r.Facts.Str(facts.Message), concerned(r))
			c.For = Suggests([]Finding{r})
			if corroborated(r) && len(listOf(r, facts.Images)) > 1 { // of one alone the name may be wrong
				c.For = said([]Finding{r})
			}
			own := keep(f.Bad(facts.CheckCalicoPod), func(o Finding) bool { return sameRefusal(r, o) })
			if c.For = append(c.For, Hints(own)...); len(own) > 0 {
				c.Says += "; calico-node waits for its own too"
				c.Covers = slices.Clone(notStarted)
			}
			seen, words := seenHere(f, refusal)
			c.Says += words
			c.For = slices.Concat(c.For, Hints(seen), Shows(notPlaced(f, facts.ReasonImage)))
			out = append(out, c)
		}
		return out
	},
}

// unpulled are the images that are refused for such a reason, as what follows from another cause.
func unpulled(f Findings, of func(refusal string) bool) []Cover {
	var out []Cover
	for _, r := range waitingPods(f, facts.StartsImage) {
		if of(r.Facts.Str(facts.Refusal)) {
			out = append(out, Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// seenHere is what the node itself shows of the way that a registry's refusal is about, and that in words.
func seenHere(f Findings, refusal string) ([]Finding, string) {
	route := f.With(route.RouteCanReach.ID, route.FactDefault, false)
	switch {
	case refusal == facts.RefusedUnreachable && len(route) > 0:
		return route, "; the node has no default route"
	case refusal == facts.RefusedUntrusted && len(f.Failed(host.NodeClock.ID)) > 0:
		return f.Failed(host.NodeClock.ID), "; the node's clock is wrong, which makes every certificate look bad"
	}
	return nil, ""
}

// sameRefusal tells whether calico-node waits for its image for the same reason as other pods.
func sameRefusal(pods, calico Finding) bool {
	refusal := pods.Facts.Str(facts.Refusal)
	return refusal != "" && calico.Facts.Str(facts.Refusal) == refusal && (facts.RefusedByWay(refusal) ||
		slices.Contains(listOf(pods, facts.Registries), facts.RegistryOf(calico.Facts.Str(facts.Image))))
}

// concerned says of which images a registry's refusal is known.
func concerned(r Finding) string {
	images := listOf(r, facts.Images)
	if len(images) == 1 {
		return fmt.Sprintf("one image is known to be concerned: %s", images[0])
	}
	return fmt.Sprintf("every image that pods of this node wait for from there is concerned: %s", strings.Join(images, ", "))
}

// corroborated tells whether what is said of pods can be of no single tenant.
func corroborated(r Finding) bool {
	many, _ := r.Facts[facts.Corroborated].(bool)
	return many
}

// registryArg is the name of a registry, with its port where it has one of its own.
func registryArg(s string) Arg {
	if s == "docker.io" {
		s = "registry-1.docker.io" // which is asked for its images
	}
	return checked(s, isWord(s) && !strings.Contains(s, "/"), "REGISTRY")
}

// refusedWords are the Refused words as part of a sentence.
var refusedWords = map[string]string{
	facts.RefusedUnresolved: "the name is not resolved", facts.RefusedUnreachable: "it is not reached",
	facts.RefusedProxy: "the runtime's proxy is not reached, or refuses", facts.RefusedUntrusted: "its certificate is not trusted",
	facts.RefusedPlain: "it speaks HTTP and is asked by HTTPS", facts.RefusedLimited: "it has answered too many requests",
	facts.RefusedUnauthorized: "it refuses the login, or wants one", facts.RefusedFailing: "it has an error of its own",
	facts.RefusedAbsent: "it has no such image",
}

// askRegistry asks a registry as the runtime does, from the node.
const askRegistry = "ssh {node} curl -sS -m 10 -o /dev/null -w '%{http_code}' https://{registry}/v2/  # 200 or 401: it answers"

// pullFixes are the fixes by the Refused words.
var pullFixes = map[string]probe.Fix{
	facts.RefusedUnresolved: {
		Says: "Have the node resolve the registry's name: the runtime uses the node's own DNS servers, not the cluster's.",
		Manifest: []string{"ssh {node} getent hosts {registry}", "ssh {node} cat /etc/resolv.conf",
			"# from here: 'getent hosts {registry}': does the name exist at all?"},
		Radius: onlyReads,
	},
	facts.RefusedUnreachable: {
		Says:     "Find out where the way to the registry ends.",
		Manifest: []string{askRegistry, "ssh {node} ip route get 1.1.1.1", lookAtProxy, lookAtPods},
		Radius:   onlyReads,
	},
	facts.RefusedProxy: {
		Says:     "Put right the proxy that the runtime is configured with, or add the registry to its NO_PROXY.",
		Manifest: []string{lookAtProxy, "ssh {node} systemctl cat {runtime} | grep -n '^# '  # the files that it comes from"},
		OnlyIf: []probe.Conditional{{If: "that file is right now",
			Manifest: []string{"ssh {node} 'sudo systemctl daemon-reload && sudo systemctl restart {runtime}'"}}},
		Radius: "this node only; containers outlive a restart of containerd or CRI-O. restarting Docker stops them unless live-restore is set{together}",
	},
	facts.RefusedUntrusted: {
		Says: "Have the node trust the registry: its CA belongs into the runtime's folder for that registry. An expired certificate is the registry's to renew; where the node's clock is wrong, every certificate looks bad.",
		Manifest: []string{"ssh {node} date -u",
			"ssh {node} 'curl -sSv -m 10 -o /dev/null https://{registry}/v2/ 2>&1 | grep -i -e issuer -e expire -e certificate'",
			"ssh {node} 'grep -rn -e ca -e server -e skip_verify /etc/containerd/certs.d /etc/containers/registries.conf.d'"},
		Radius: onlyReads,
	},
	facts.RefusedPlain: {
		Says: "Give the registry a certificate, or have this node's runtime ask it by HTTP: containerd by a hosts.toml with server = \"http://...\" below /etc/containerd/certs.d and config_path set to that folder, CRI-O by insecure = true in registries.conf.",
		Manifest: []string{"ssh {node} 'grep -n config_path /etc/containerd/config.toml; grep -rn . /etc/containerd/certs.d /etc/containers/registries.conf.d'",
			"# compare with a node on which this registry's images start"},
		Radius: "reading changes nothing; what is pulled by HTTP anybody on the way can replace",
	},
	facts.RefusedLimited: {
		Says: "Wait until the registry's period is over (hours, at Docker Hub), log in, or pull by a mirror of your own. The limit counts by the address that the registry sees, which all nodes behind one NAT share.",
		Manifest: []string{lookAtPods,
			"kubectl get events -A --field-selector reason=Failed | grep -i -e toomanyrequests -e 'Too Many Requests' | tail -5"},
		OnlyIf: []probe.Conditional{{If: "another node has the image (IMAGE)", Manifest: []string{
			"# there 'sudo ctr -n k8s.io images export image.tar IMAGE'; on {node} 'sudo ctr -n k8s.io images import image.tar'"}}},
		Radius: onlyReads,
	},
	facts.RefusedUnauthorized: {
		Says: "See which login the node's pods and kubelet have for the registry: imagePullSecrets of the pod or its ServiceAccount, or the kubelet's credential provider.",
		Manifest: []string{lookAtPods,
			"ssh {node} 'ps -o args= -C kubelet | tr \" \" \"\\n\" | grep -e credential-provider'  # the folder of its plugins, and their settings"},
		Radius: onlyReads,
	},
	facts.RefusedFailing: {
		Says:     "The registry answers and is ill itself: mend it there, or wait. Other nodes meet the same unless they ask another mirror.",
		Manifest: []string{askRegistry},
		Radius:   onlyReads,
	},
}

// lookAtProxy shows the runtime's proxy without passwords.
const lookAtProxy = "ssh {node} \"systemctl show {runtime} -p Environment | sed -E 's#//[^@/ ]*@#//#g'\"  # a proxy, without passwords"
