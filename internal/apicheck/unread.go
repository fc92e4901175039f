package apicheck

import (
	"cmp"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// The maximum number of policies that a policy check lists, and of pods for each policy.
const (
	MaxPolicies = 10
	MaxPods     = 20
)

// Message makes an object's text safe to display. A container's message may be the end of its log, and anyone with
// write access to the object can write any text.
func Message(s string) string { return cmp.Or(probe.Quoted(s), "no message") }

// Unread returns the result of a check that needs a missing part of the Snapshot. err must not be nil.
func Unread(err error) probe.Result {
	if right, named := apierror.Lacking(err); named && apierrors.IsForbidden(err) {
		return probe.Found(probe.Unknown, "%s", right).With(facts.LacksRight, right)
	}
	if cluster.Denied(err) {
		return probe.Found(probe.Unknown, "the API denies access: %v", err)
	}
	return probe.Failed(err)
}

// SkipDenied returns the result for a failed optional read: skip if the user does not have the right, otherwise
// unknown.
func SkipDenied(err error) probe.Result {
	r := Unread(err)
	if cluster.Denied(err) {
		r.Status = probe.Skip
	}
	return r
}

// UnreadOf is like Unread, but returns skip if the Calico objects are in a separate etcd.
func UnreadOf(what string, err error) probe.Result {
	if errors.Is(err, cluster.ErrInEtcd) {
		return probe.Found(probe.Skip, "%s %v", what, err)
	}
	return Unread(err)
}

// Failed reports whether err, or an error joined in it, is a failed call. The user has the right to make the call, and
// a retry may succeed.
func Failed(err error) bool {
	if all, joined := err.(interface{ Unwrap() []error }); joined {
		return slices.ContainsFunc(all.Unwrap(), Failed)
	}
	return err != nil && !cluster.Denied(err) && !errors.Is(err, cluster.ErrNotWorkedOut)
}
