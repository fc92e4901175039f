package evidence

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Unpulled are the images that are refused for such a reason, as what follows from another cause.
func Unpulled(f diagnose.Findings, of func(refusal string) bool) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range WaitingPods(f, facts.StartsImage) {
		if of(r.Facts.Str(facts.Refusal)) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// SameRefusal tells whether calico-node waits for its image for the same reason as other pods.
func SameRefusal(pods, calico diagnose.Finding) bool {
	refusal := pods.Facts.Str(facts.Refusal)
	return refusal != "" && calico.Facts.Str(facts.Refusal) == refusal && (facts.RefusedByWay(refusal) ||
		slices.Contains(diagnose.ListOf(pods, facts.Registries), facts.RegistryOf(calico.Facts.Str(facts.Image))))
}

// Corroborated tells whether what is said of pods can be of no single tenant.
func Corroborated(r diagnose.Finding) bool {
	many, _ := r.Facts[facts.Corroborated].(bool)
	return many
}

// RegistryArg is the name of a registry, with its port where it has one of its own.
func RegistryArg(s string) diagnose.Arg {
	if s == "docker.io" {
		s = "registry-1.docker.io" // which is asked for its images
	}
	return diagnose.CheckedArg(s, diagnose.IsWord(s) && !strings.Contains(s, "/"), "REGISTRY")
}

// RefusedWords are the Refused words as part of a sentence.
var RefusedWords = map[string]string{
	facts.RefusedUnresolved: "the name is not resolved", facts.RefusedUnreachable: "it is not reached",
	facts.RefusedProxy: "the runtime's proxy is not reached, or refuses", facts.RefusedUntrusted: "its certificate is not trusted",
	facts.RefusedPlain: "it speaks HTTP and is asked by HTTPS", facts.RefusedLimited: "it has answered too many requests",
	facts.RefusedUnauthorized: "it refuses the login, or wants one", facts.RefusedFailing: "it has an error of its own",
	facts.RefusedAbsent: "it has no such image",
}

// askRegistry asks a registry as the runtime does, from the node.
const askRegistry = "ssh {node} curl -sS -m 10 -o /dev/null -w '%{http_code}' https://{registry}/v2/  # 200 or 401: it answers"

// PullFixes are the fixes by the Refused words.
var PullFixes = map[string]probe.Fix{
	facts.RefusedUnresolved: {
		Says: "Have the node resolve the registry's name: the runtime uses the node's own DNS servers, not the cluster's.",
		Manifest: []string{"ssh {node} getent hosts {registry}", "ssh {node} cat /etc/resolv.conf",
			"# from here: 'getent hosts {registry}': does the name exist at all?"},
		Radius: OnlyReads,
	},
	facts.RefusedUnreachable: {
		Says:     "Find out where the way to the registry ends.",
		Manifest: []string{askRegistry, "ssh {node} ip route get 1.1.1.1", lookAtProxy, lookAtPods},
		Radius:   OnlyReads,
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
		Radius: OnlyReads,
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
		Radius: OnlyReads,
	},
	facts.RefusedUnauthorized: {
		Says: "See which login the node's pods and kubelet have for the registry: imagePullSecrets of the pod or its ServiceAccount, or the kubelet's credential provider.",
		Manifest: []string{lookAtPods,
			"ssh {node} 'ps -o args= -C kubelet | tr \" \" \"\\n\" | grep -e credential-provider'  # the folder of its plugins, and their settings"},
		Radius: OnlyReads,
	},
	facts.RefusedFailing: {
		Says:     "The registry answers and is ill itself: mend it there, or wait. Other nodes meet the same unless they ask another mirror.",
		Manifest: []string{askRegistry},
		Radius:   OnlyReads,
	},
}

// lookAtProxy shows the runtime's proxy without passwords.
const lookAtProxy = "ssh {node} \"systemctl show {runtime} -p Environment | sed -E 's#//[^@/ ]*@#//#g'\"  # a proxy, without passwords"
