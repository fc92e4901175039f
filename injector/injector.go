// Package injector is the writing half of the Kubernetes API: the access methods that bring
// a probe to a node, the conversation with the probe there, and the removal of whatever was
// created for it. Everything it creates ends by itself on the server, is removed when the
// session closes, and carries who made it, why and for how long.
//
// An access method is a function, Open, that turns Options into a Session. A Fallback tries
// several of them until a probe answers:
//
//	client, err := injector.NewClient(config)
//	f := &injector.Fallback{Methods: []injector.Method{
//		{Name: injector.MethodPod, Open: injector.Pod(client)},
//		{Name: injector.MethodExec, Open: injector.Exec(client)},
//	}, ...}
//	failed, err := f.Do(ctx) // failed: why none worked
package injector

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/serverclock"
)

// Client writes to a cluster.
type Client struct {
	kube   kubernetes.Interface
	config *rest.Config
	clock  *serverclock.Clock
}

// NewClient returns a Client for config, which is not changed.
func NewClient(config *rest.Config) (*Client, error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = 50, 100
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
	Who        string // user@host, for auditors
	Reason     string // the user's own words, may be empty
	Checks     []string
	Calico     *corev1.Pod   // the node's calico-node pod, which is verified; nil when there is none
	CalicoErr  error         // why that is not known; a *PlacementError (NoCalico) where no pod can be verified
	Needed     []string      // Linux capabilities the checks take, without CAP_
	Privileged bool          // all capabilities instead of the few needed
	Shell      bool          // it is for a root shell: with all capabilities, and in a pod of its own the node's files writable
	Start      time.Duration // how long to wait for the probe to run
	Idle       time.Duration // how long nothing at all may happen meanwhile, 0 = as long
	Whole      time.Duration // hard end of the probe, on the server's side
	// Keep makes a probe outlive a line that is cut, for as long as it goes on without its
	// client (probe.Silence); the session then finds it again. Ways whose probe hangs on
	// its line (exec, ssh, local) cannot.
	Keep bool

	Carried []byte // the client's own probe for the node, packed by gzip; empty where it carries none
	Arch    string // what the API says the node is: amd64
	// Running lists the pods that run on the node.
	Running     func(context.Context) ([]corev1.Pod, error)
	Destination string // for ssh: admin@10.0.0.7
	Named       bool   // the user named that host; else it is what the Node says
	SSHConfig   string // a file for ssh -F, "" = the user's own
	Machine     string // the node's machine-id as the API has it, "" = none that is this node's alone

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
	annotationExpires = "calico-probe.io/expires"  // in place of it, by clients before there was one: RFC 3339, by their clock
	annotationChecks  = "calico-probe.io/checks"
	annotationShell   = "calico-probe.io/shell" // what a probe is for that may change the node

	annotationAppArmor = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix // and a container's name
)

// containerName is the probe's container, in its own pod.
const containerName = "probe"

// margin is what the server-side end leaves beyond the run's own limit, so that
// a run that keeps its limit is never cut by it.
const margin = 10 * time.Second

// cleanLimit bounds the removal of what was created, which also happens after
// the run's own context has ended.
const cleanLimit = 10 * time.Second
