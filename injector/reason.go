package injector

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// PlacementError reports why one access method failed. Text is one sentence for the user.
type PlacementError struct {
	Reason facts.Reason
	Waited bool // it timed out
	// Answered is set with ReasonAttach if a connection was opened, but the wrong server answered.
	Answered bool
	Text     string
	Err      error
	// Sandbox is the kubelet's report about the pod's failed sandbox; nil = no report.
	Sandbox *facts.Sandbox
}

func (e *PlacementError) Error() string { return e.Text }
func (e *PlacementError) Unwrap() error { return e.Err }

// Sentence marks Text as a user message (apierror.Sentence).
func (e *PlacementError) Sentence() {}

// And returns the same error with more text.
func (e *PlacementError) And(more string) *PlacementError {
	longer := *e
	longer.Text += "; " + more
	return &longer
}

func refuse(r facts.Reason, format string, args ...any) *PlacementError {
	return &PlacementError{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// wrongAnswer matches the API server's errors if the server at a port is not the expected kubelet. The texts come from
// crypto/tls, crypto/x509 and net/http.
var wrongAnswer = regexp.MustCompile(`tls: first record does not look like a TLS handshake|x509: |malformed HTTP|` +
	`remote error: tls: `)

// Unattached returns the error for an API server that cannot connect to the kubelet.
func Unattached(format string, args ...any) *PlacementError {
	pe := refuse(facts.ReasonAttach, format, args...)
	pe.Answered = wrongAnswer.MatchString(pe.Text)
	return pe
}

// waited returns the error of an access method that timed out.
func waited(r facts.Reason, format string, args ...any) *PlacementError {
	pe := refuse(r, format, args...)
	pe.Waited = true
	return pe
}

// alteredBy rejects a created object that differs from the requested one.
func alteredBy(what string) *PlacementError {
	return refuse(facts.ReasonAdmission, "the cluster's policy changed the created object: %s", what)
}

// quotaRefusal matches refusals by a ResourceQuota or a LimitRange.
var quotaRefusal = regexp.MustCompile(`(exceeded quota|failed quota|status unknown for quota): |insufficient quota to ` +
	`|(minimum|maximum) \S+ usage per (Container|Pod) is |\S+ max limit to request ratio per (Container|Pod) is `)

// refusedCreate classifies the API's answer to a request to create a pod. ReasonAPI is a failure of the API server
// itself, and affects every access method that uses the API. Any other reason concerns only this method.
func refusedCreate(what string, err error) *PlacementError {
	text := probe.OneLine(err.Error())
	pe := &PlacementError{Reason: facts.ReasonAPI, Text: fmt.Sprintf("creating %s: %s", what, text), Err: err}
	switch {
	case quotaRefusal.MatchString(text):
		pe.Reason, pe.Text = facts.ReasonQuota, "the namespace's quota or limit range refuses the probe: "+text
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && strings.Contains(text, "being terminated"),
		apierrors.IsForbidden(err) && strings.Contains(text, "error looking up service account"): // the namespace is new, or kube-controller-manager is down
		pe.Reason = facts.ReasonNamespace
	case apierrors.IsForbidden(err) && strings.Contains(text, " cannot "):
		pe.Reason, pe.Text = facts.ReasonRBAC, fmt.Sprintf("no right to create %s: %s", what, text)
	case apierrors.IsBadRequest(err) && strings.Contains(text, "does not support dry run"):
		// the real request may succeed
		pe.Reason = facts.ReasonSupport
	case strings.Contains(text, "failed calling webhook"): // arrives as an internal error
		pe.Reason, pe.Text = facts.ReasonAdmission, "a policy webhook of the cluster is down, so the API server rejects the request: "+text
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), strings.Contains(text, "admission webhook"):
		pe.Reason, pe.Text = facts.ReasonAdmission, "the cluster's policy refuses the probe: "+text
	case refusedHere(err):
		pe.Reason = facts.ReasonSupport
	}
	return pe
}

// unread returns the error for data that an access method needs but the API did not return.
func unread(what string, err error) *PlacementError {
	pe := &PlacementError{
		Reason: facts.ReasonAPI, Text: fmt.Sprintf("cannot read %s: %s", what, probe.OneLine(err.Error())), Err: err,
	}
	if apierrors.IsForbidden(err) {
		pe.Reason = facts.ReasonRBAC
	}
	return pe
}

// NoCalico returns the error of the method ephemeral if no pod can be verified as a calico-node pod.
func NoCalico(why error) *PlacementError {
	return &PlacementError{Reason: facts.ReasonNoCalico, Text: probe.OneLine(why.Error()), Err: why}
}

// forbidden reports whether the API refused because of a missing permission. For a refused attach or exec, only the
// text shows this.
func forbidden(text string) bool {
	return strings.Contains(text, " is forbidden") || strings.Contains(text, "forbidden: User ")
}

// refusedHere reports whether the API server works but rejects this one request. The cause is then not the server
// (5xx), its load or our credentials.
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
