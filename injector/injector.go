// Package injector puts probes on nodes and talks to them. It has the access methods, each of which opens
// a session with a probe on a node, and the removal of whatever was created for it. It is the half that
// writes to the Kubernetes API; package cluster reads it. Everything it creates ends by itself on the
// server, is removed when the session closes, and is annotated with who created it, why and for how long.
//
// A connection may break. The stdin of a probe for one run ends with it: the probe finishes the plan that
// it is answering and ends, and the session reads the rest of the answer from the container's log
// (Session.start). A kept probe, that of a shell, goes on for up to 30 seconds, in which the session
// reconnects (Session.startKept).
//
// An access method is a function, Open, that turns Options into a Session. A Fallback tries
// several of them until one puts a probe there:
//
//	client, err := injector.NewClient(config)
//	f := &injector.Fallback{Methods: []injector.Method{
//		{Name: injector.MethodPod, Open: injector.Opener(injector.MethodPod, client)},
//		{Name: injector.MethodExec, Open: injector.Opener(injector.MethodExec, client)},
//	}, ...}
//	p, err := f.Next(ctx) // nil: f.Failures says why none works
package injector

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	batch "k8s.io/client-go/kubernetes/typed/batch/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/serverclock"
)

// clients are those for the groups of the API in which something is made.
type clients interface {
	CoreV1() core.CoreV1Interface
	BatchV1() batch.BatchV1Interface
}

// Client writes to a cluster.
type Client struct {
	kube   clients
	config *rest.Config
	clock  *serverclock.Clock
}

// NewClient returns a Client for config, which is not changed. A rate of requests that it sets counts where it is the
// higher one.
func NewClient(config *rest.Config) (*Client, error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = max(own.QPS, 50), max(own.Burst, 100)
	clock := &serverclock.Clock{}
	dated := rest.CopyConfig(own)
	dated.Wrap(clock.Transport)
	kube, err := kubernetes.NewForConfig(dated)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	return &Client{kube: kube, config: own, clock: clock}, nil
}

// Options say what is put where, for whom and for how long.
type Options struct {
	Node       string
	Namespace  string // of the probe pod
	Image      string
	PullSecret string // "" = none
	Run        string // run ID: eight hexadecimal digits
	Who        string // user@host, for audits
	Reason     string // the user's own words, may be empty
	Checks     []string
	Calico     *corev1.Pod // the node's calico-node pod, which is verified; nil when there is none
	CalicoErr  error       // why that is not known; a *PlacementError (NoCalico) where no pod can be verified
	Needed     []string    // Linux capabilities that the checks need, without CAP_
	Privileged bool        // all capabilities instead of the few needed
	// it is for a root shell: with all capabilities, and in a pod of its own the node's files writable
	Shell        bool
	DebugProfile *DebugProfile // in place of Needed, Privileged and the capabilities of Shell; nil = none
	Start        time.Duration // how long to wait for the probe to run
	Idle         time.Duration // how long nothing at all may happen meanwhile, 0 = as long
	Again        bool          // the method has failed before in this run: one place that hangs is enough
	Whole        time.Duration // hard end of the probe, on the server's side
	// Keep makes the probe outlive its connection for up to probe.Silence, and the session reconnect.
	// Probes by exec, ssh and local cannot: they end with their connection.
	Keep bool

	Embedded []byte // the client's embedded probe for the node, packed by gzip; empty where it has none
	Arch     string // what the API says the node is: amd64
	// Running lists the pods that run on the node.
	Running     func(context.Context) ([]corev1.Pod, error)
	Destination string // for ssh: admin@10.0.0.7
	Named       bool   // the user named that host; else it is an address of the Node
	SSHConfig   string // a file for ssh -F, "" = the user's own
	Machine     string // the node's machine-id in the API, "" = none, or other nodes have the same

	Progress func(text string) // what is waited for, each time it changes
	Note     func(text string) // what the user must know afterwards
}

// Labels and annotations of what is created.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	labelName    = "app.kubernetes.io/name"
	labelRun     = "calico-probe.io/run"
	managedBy    = "calico-probe"

	annotationNode    = "calico-probe.io/node"
	annotationWho     = "calico-probe.io/who"
	annotationReason  = "calico-probe.io/reason"
	annotationLife    = "calico-probe.io/lifetime" // a Go duration, from the object's creation on
	annotationExpires = "calico-probe.io/expires"  // by older clients in place of the lifetime: RFC 3339, by their clock
	annotationChecks  = "calico-probe.io/checks"
	annotationShell   = "calico-probe.io/shell" // on a probe that may change the node: what it is for

	annotationAppArmor = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix // and a container's name
)

// containerName is the probe's container, in its own pod.
const containerName = "probe"

// margin is how much later than the run's own limit the server ends the probe, so that a run within its
// limit is never cut short.
const margin = 10 * time.Second

// cleanLimit bounds the removal of what was created, which also happens after
// the run's own context has ended.
const cleanLimit = 10 * time.Second
