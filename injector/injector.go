// Package injector puts probes on nodes and talks to them:
//
//	Options --> Open (one access method) --> Session: requests in, events out
//	Methods --> Fallback.Next: the first method that works --> Placed (a Session)
//
// Fallback is its entry point for one node, Wave for many. The package writes to the Kubernetes API; package cluster
// reads from it. It does not run checks or judge results. Each created object is annotated with its creator, reason and
// lifetime. Closing the session removes it. If the client dies, the server removes it automatically.
//
// A connection may break. A probe for one run then loses its stdin. The probe finishes its plan and exits, and the
// session reads the rest of the answer from the container's log (Session.start). A kept probe, such as a shell's probe,
// keeps running for up to 30 seconds. During this time the session reconnects (Session.startKept).
//
// An access method is a function, Open, that turns Options into a Session. A Fallback tries several access methods
// until one places a probe:
//
//	client, err := injector.NewClient(config)
//	f := &injector.Fallback{Methods: []injector.Method{
//		{Name: injector.MethodPod, Open: injector.Opener(injector.MethodPod, client)},
//		{Name: injector.MethodExec, Open: injector.Opener(injector.MethodExec, client)},
//	}, ...}
//	p, err := f.Next(ctx) // nil: f.Failures has the reasons
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

// clients are the clients for the API groups of created objects.
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

// NewClient returns a Client for config, which it does not change. If config has a higher request rate, the Client uses
// it.
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

// Options describe what to create where, for whom and for how long.
type Options struct {
	Node       string
	Namespace  string // namespace of the probe pod
	Image      string
	PullSecret string // "" = no pull secret
	Run        string // run ID: eight hexadecimal digits
	Who        string // user@host, for audits
	Reason     string // the user's own words, may be empty
	Checks     []string
	Calico     *corev1.Pod // the node's verified calico-node pod, or nil
	CalicoErr  error       // why Calico is nil: a *PlacementError (NoCalico) if no pod can be verified
	Needed     []string    // Linux capabilities that the checks need, without CAP_
	Privileged bool        // all capabilities instead of Needed
	// for a root shell: all capabilities, and writable node files if the probe has its own pod
	Shell        bool
	DebugProfile *DebugProfile // instead of Needed, Privileged and Shell's capabilities; nil = no profile
	Start        time.Duration // time limit for the probe to run
	Idle         time.Duration // maximum time without any event; 0 = same as Start
	// Patience is the user's own time limit for a start; 0 = none. If it is longer than the limits for an ssh connection
	// and for a running probe's first event, it also replaces those limits.
	Patience time.Duration
	Again    bool          // the method has failed before in this run: give up at the first hang
	Whole    time.Duration // hard time limit of the probe, enforced by the server
	// Keep keeps the probe running for up to probe.Silence after its connection breaks, so the session can reconnect.
	// Probes by exec, ssh and local do not support this: they exit when their connection breaks.
	Keep bool

	Embedded []byte // the client's embedded probe for the node, packed by gzip; empty if there is none
	Arch     string // the node's architecture in the API: amd64
	// Running lists the pods that run on the node.
	Running     func(context.Context) ([]corev1.Pod, error)
	Destination string // for ssh: admin@10.0.0.7
	Named       bool   // the user named the host; otherwise it is an address of the Node
	SSHConfig   string // a file for ssh -F; "" = the user's configuration
	Machine     string // the node's machine-id in the API; "" = missing, or shared with other nodes

	Progress func(text string) // receives each change of progress
	Note     func(text string) // receives notes for the user
}

// Labels and annotations of created objects.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	labelName    = "app.kubernetes.io/name"
	labelRun     = "calico-probe.io/run"
	managedBy    = "calico-probe"

	annotationNode    = "calico-probe.io/node"
	annotationWho     = "calico-probe.io/who"
	annotationReason  = "calico-probe.io/reason"
	annotationLife    = "calico-probe.io/lifetime" // a Go duration since the object's creation
	annotationExpires = "calico-probe.io/expires"  // from older clients instead of the lifetime: RFC 3339, by their clock
	annotationChecks  = "calico-probe.io/checks"
	annotationShell   = "calico-probe.io/shell" // on a probe that may change the node: its purpose

	annotationAppArmor = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix // followed by a container's name
)

// containerName is the name of the probe's container in its own pod.
const containerName = "probe"

// margin is the time between the run's limit and the server's later limit for the probe. It prevents the server from
// ending a run early.
const margin = 10 * time.Second

// cleanLimit is the time limit for removing created objects. The removal also runs after the run's own context has
// ended.
const cleanLimit = 10 * time.Second
