package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	kubeletapi "github.com/calico-probe/calico-probe/internal/subject/kubelet/api"
	startapi "github.com/calico-probe/calico-probe/internal/subject/start/api"
	"github.com/calico-probe/calico-probe/probe"
)

// Standing is the state of a node in a list of nodes, from API objects that are read for all nodes at once.
type Standing struct {
	Node   string
	Status probe.Status // the worst of the checks node-ready, node-lease and calico-pod
	Saw    string       // the reason for the status, or how long a good node has been ready
	rank   int
}

// The order in which nodes are listed.
const (
	rankUnready = iota
	rankSilent
	rankPressure
	rankCalico
	rankWarned
	rankCordoned
	rankReady
	rankWindows
)

// Standings returns the state of each node, the worst first. gaps lists the kinds of objects that could not be read. An
// unread object makes no node worse.
func Standings(ctx context.Context, c *cluster.Client) (out []Standing, gaps []string, err error) {
	snapshots, gaps, err := c.OfEach(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range snapshots {
		out = append(out, standingOf(s))
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank),
			strings.Compare(a.Node, b.Node))
	})
	return out, gaps, nil
}

// standingOf runs the cheap checks that show which nodes are broken.
func standingOf(s *cluster.Snapshot) Standing {
	j := judged{Standing: Standing{Node: s.Node.Name, rank: rankReady, Status: probe.OK}}
	kubeletapi.NodeReady(s, j.by(rankUnready))
	if s.Lease.Err == nil || apierrors.IsNotFound(s.Lease.Err) {
		kubeletapi.NodeLease(s, j.by(rankSilent))
	}
	windows := s.Node.Labels[corev1.LabelOSStable] == "windows"
	if s.Calico.Err == nil && !windows {
		startapi.CalicoPod(s, func(r probe.Result) {
			if r.Target != "" {
				r.Saw = "calico-node: " + strings.TrimPrefix(r.Saw, cluster.CalicoContainer+" ")
			}
			j.by(rankCalico)(r)
		})
	}
	if errors.As(s.Calico.Err, new(*cluster.UnverifiedError)) && !windows {
		j.take(rankWarned, apicheck.Unread(s.Calico.Err))
	}
	if s.Node.Spec.Unschedulable {
		j.take(rankCordoned, probe.Found(probe.Info, "cordoned"))
	}
	if windows {
		j.take(rankWindows, probe.Found(probe.Info, "runs Windows, which the probe does not support"))
		if j.rank == rankReady {
			j.rank = rankWindows
		}
	}
	if s.Lease.Err != nil && !apierrors.IsNotFound(s.Lease.Err) && j.Status == probe.OK {
		j.Status = probe.Unknown // Ready stays true for a minute after a kubelet stops reporting
	}
	if j.ready != "" && (len(j.said) == 0 || j.rank >= rankCordoned) {
		j.said = append(j.said, j.ready)
	}
	j.Saw = strings.Join(j.said, "; ")
	return j.Standing
}

// judged collects a node's results.
type judged struct {
	Standing
	said  []string // the problems, each once
	ready string   // node-ready's text for a good node
}

// take adds a problem. The worst rank counts.
func (j *judged) take(rank int, r probe.Result) {
	j.rank = min(j.rank, rank)
	if !slices.Contains(j.said, r.Saw) {
		j.said = append(j.said, r.Saw)
	}
	if j.Status != probe.Fail && r.Status != probe.Info {
		j.Status = r.Status
	}
}

// by adds the results of a check. Its failures have this rank.
func (j *judged) by(rank int) func(probe.Result) {
	return func(r probe.Result) {
		switch {
		case r.Status == probe.Fail && rank == rankUnready && r.Target != "":
			j.take(rankPressure, r)
		case r.Status == probe.Fail:
			j.take(rank, r)
		case r.Status == probe.Warn:
			j.take(rankWarned, r)
		case r.Status == probe.OK && rank == rankUnready:
			j.ready = r.Saw
		}
	}
}
