package apicheck

import (
	"cmp"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// How many policies a check of policies names, and how many pods of each.
const (
	PoliciesTold = 10
	PodsTold     = 20
)

// Message is what a component wrote into an object, as it may be shown: a container's may be the end of
// its log, and who may write the object can write anything.
func Message(s string) string { return cmp.Or(probe.Quoted(s), "no message") }

// Unread is the result of a question whose part of the Snapshot is missing. The error is not nil.
func Unread(err error) probe.Result {
	if right, named := cluster.Lacking(err); named && apierrors.IsForbidden(err) {
		return probe.Found(probe.Unknown, "%s", right).With(facts.LacksRight, right)
	}
	if cluster.Denied(err) {
		return probe.Found(probe.Unknown, "the API refuses to say: %v", err)
	}
	return probe.Failed(err)
}

// SkipDenied is the result of an optional reading that failed: skipped where the user may not read it, else unknown.
func SkipDenied(err error) probe.Result {
	r := Unread(err)
	if cluster.Denied(err) {
		r.Status = probe.Skip
	}
	return r
}

// UnreadOf is the same as Unread, or says of something of Calico's that it is in an etcd of its own.
func UnreadOf(what string, err error) probe.Result {
	if errors.Is(err, cluster.ErrInEtcd) {
		return probe.Found(probe.Skip, "%s %v", what, err)
	}
	return Unread(err)
}

// Failed reports whether err, or one of the errors it joins, is a call that failed: one that the user may make, and
// that another time may answer.
func Failed(err error) bool {
	if all, joined := err.(interface{ Unwrap() []error }); joined {
		return slices.ContainsFunc(all.Unwrap(), Failed)
	}
	return err != nil && !cluster.Denied(err) && !errors.Is(err, cluster.ErrNotWorkedOut)
}
