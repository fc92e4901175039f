package injector

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reason is why a probe could not be put on a node.
type Reason string

// The closed list of reasons; rules read them.
const (
	ReasonRBAC      Reason = "rbac"      // the API refuses for lack of rights
	ReasonAdmission Reason = "admission" // PodSecurity, a webhook or a SCC refuses the pod, or changes it
	ReasonQuota     Reason = "quota"     // a ResourceQuota or LimitRange refuses the pod
	ReasonNamespace Reason = "namespace" // the namespace is missing or ending
	ReasonImage     Reason = "image"     // the image cannot be pulled, or is not ours
	ReasonKubelet   Reason = "kubelet"   // the kubelet does not take the pod up
	ReasonRejected  Reason = "rejected"  // the kubelet rejects the pod, and says why
	ReasonRuntime   Reason = "runtime"   // the container runtime does not start it
	ReasonNoCalico  Reason = "no-calico" // no calico-node pod to join
	ReasonSupport   Reason = "support"   // this cluster cannot do it this way
	ReasonAttach    Reason = "attach"    // the probe runs and cannot be talked to
	ReasonSilent    Reason = "silent"    // no word comes back by API server, kubelet and runtime, whichever hangs
	ReasonAPI       Reason = "api"       // the API server fails or cannot be reached
	ReasonShell     Reason = "shell"     // nothing there that takes a carried probe and runs it
	ReasonLogin     Reason = "login"     // ssh is not let in, or does not know the node
	ReasonReach     Reason = "reach"     // ssh does not reach the node from here
	ReasonMachine   Reason = "machine"   // another machine was reached, or nothing says that it is the node
	ReasonNoNode    Reason = "no-node"   // the machine that was asked for is no node
)

// PlacementError says why one way onto a node does not work. Text is one
// sentence for the user.
type PlacementError struct {
	Reason Reason
	Waited bool // nobody said no: the time was up
	Text   string
	Err    error
}

func (e *PlacementError) Error() string { return e.Text }
func (e *PlacementError) Unwrap() error { return e.Err }

// Sentence marks Text as written for the user (cluster.Sentence).
func (e *PlacementError) Sentence() {}

// And is the same with more to its text.
func (e *PlacementError) And(more string) *PlacementError {
	longer := *e
	longer.Text += "; " + more
	return &longer
}

func refuse(r Reason, format string, args ...any) *PlacementError {
	return &PlacementError{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// waited is a way that came to nothing in the time it had.
func waited(r Reason, format string, args ...any) *PlacementError {
	pe := refuse(r, format, args...)
	pe.Waited = true
	return pe
}

// alteredBy is the refusal of what the API server made otherwise than it was asked for.
func alteredBy(what string) *PlacementError {
	return refuse(ReasonAdmission, "the cluster's policy changes what is created: %s", what)
}

// quotaSays are the words of the API server where a ResourceQuota or a LimitRange refuses.
var quotaSays = regexp.MustCompile(`(exceeded quota|failed quota|status unknown for quota): |insufficient quota to ` +
	`|(minimum|maximum) \S+ usage per (Container|Pod) is |\S+ max limit to request ratio per (Container|Pod) is `)

// refusedCreate sorts the API's answer to the creation of a pod. What is of the API
// server itself would meet every way through it; anything else only this one.
func refusedCreate(what string, err error) *PlacementError {
	text := oneLine(err.Error())
	pe := &PlacementError{Reason: ReasonAPI, Text: fmt.Sprintf("creating %s: %s", what, text), Err: err}
	switch {
	case quotaSays.MatchString(text):
		pe.Reason, pe.Text = ReasonQuota, "the namespace's quota or limit range refuses the probe: "+text
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && strings.Contains(text, "being terminated"),
		apierrors.IsForbidden(err) && strings.Contains(text, "error looking up service account"): // the namespace is new, or kube-controller-manager is down
		pe.Reason = ReasonNamespace
	case apierrors.IsForbidden(err) && strings.Contains(text, " cannot "):
		pe.Reason, pe.Text = ReasonRBAC, fmt.Sprintf("no right to create %s: %s", what, text)
	case apierrors.IsBadRequest(err) && strings.Contains(text, "does not support dry run"): // which says nothing of the real thing
		pe.Reason = ReasonSupport
	case strings.Contains(text, "failed calling webhook"): // which comes as an internal error
		pe.Reason, pe.Text = ReasonAdmission, "a webhook of the cluster's policy is down, and refuses what it cannot look at: "+text
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), strings.Contains(text, "admission webhook"):
		pe.Reason, pe.Text = ReasonAdmission, "the cluster's policy refuses the probe: "+text
	case refusedHere(err):
		pe.Reason = ReasonSupport
	}
	return pe
}

// unread is what the API did not tell that a way has to know.
func unread(what string, err error) *PlacementError {
	pe := &PlacementError{Reason: ReasonAPI, Text: fmt.Sprintf("%s is not known: %s", what, oneLine(err.Error())), Err: err}
	if apierrors.IsForbidden(err) {
		pe.Reason = ReasonRBAC
	}
	return pe
}

// NoCalico is the refusal of the ways that join calico-node's pod where no pod can be
// verified to be it.
func NoCalico(why error) *PlacementError {
	return &PlacementError{Reason: ReasonNoCalico, Text: oneLine(why.Error()), Err: why}
}

// forbidden tells whether the API refused for lack of rights; a line that is not opened
// says so in its text alone.
func forbidden(text string) bool {
	return strings.Contains(text, " is forbidden") || strings.Contains(text, "forbidden: User ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// refusedHere tells whether the API server works and does not take this request: none
// of what is wrong with it (5xx), with its load or with our credentials.
func refusedHere(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}
