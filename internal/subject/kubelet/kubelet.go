// Package kubelet names the checks of the kubelet, and the facts they report. Both binaries link it.
package kubelet

import (
	"github.com/calico-probe/calico-probe/probe"
)

// TargetAuthority is what the result about the CA in the kubelet's kubeconfig is about.
const TargetAuthority = "API server"

// KubeletHealth asks the kubelet itself, on the two ports it has: the API only
// knows that it stopped reporting, forty seconds later.
var KubeletHealth = &probe.Check{
	ID: probe.CheckKubeletHealth, Asks: "does the kubelet answer on its own ports?", From: probe.FromNode,
	Tags:   []string{probe.TagRuntime},
	Access: []string{"host network", "proc", "var/lib/kubelet", "etc/kubernetes/kubelet.conf"},
	Doc: `The kubelet answers 127.0.0.1:10248/healthz to anybody, and the API server on 10250.
ok: healthz says ok; port 10250 completes a TLS handshake and asks for credentials.
fail, refused: the kubelet is not running, or is between two starts; look at its log for the reason it ends. fail, no answer: it is frozen, or waits for the container runtime. fail, 500: one of its own checks fails, and it names which.
skip: healthz is turned off in the kubelet's configuration. unknown: a file with its settings cannot be read, or more than one process may be the kubelet: one of root's with that name, in the node's network and in no pod.
client certificate, where the kubeconfig of the kubelet is visible and names one: with which the kubelet goes to the API server. ok: still good. warn: it expires within two weeks and has not been renewed. fail: it has expired, so the API server rejects the kubelet. Of the file that holds key and certificate only the certificate is looked at.
saved state, where the kubelet has saved what its CPU or memory manager gave to pods: fail: that is of another policy than the configuration's, and no kubelet runs: it ends at every start for it. warn: a kubelet runs, and will end so when it next starts.
API server, where that kubeconfig names one and its CA: whether the kubelet would accept the certificate that the server shows. ok: it is of that CA. fail: it is of another (the cluster's CA was changed, or the file is another cluster's), not for that name or address, or expired by this node's clock. Nothing is sent but a TLS handshake; where none comes about nothing is said: datastore-latency asks for that.
container runtime, with --via kubelet alone: warn: the kubelet answers, but not within 5 s where it has to ask its runtime for it. stats, with --via kubelet alone: info: the kubelet answers 500 to what it uses, and says why: where its own metrics tell, memory and disks are judged by those.`,
}

// TargetCertificate is what the result about the kubelet's certificate is about.
const TargetCertificate = "client certificate"

// CertificateExpired is the reason of a certificate that has run out.
const CertificateExpired = "expired"

// TargetState is the target of kubelet-health about what the kubelet's managers have saved.
const TargetState = "saved state"
