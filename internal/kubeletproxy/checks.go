// Package kubeletproxy runs some of the node's checks without a probe: it queries the node's kubelet through the API
// server's proxy. Nothing is created on the node.
//
//	API server /api/v1/nodes/NODE/proxy -> kubelet /healthz, /stats/summary, /metrics, /configz, /logs/
//	-> Kubelet.Checks, with the IDs and facts of the checks that run on a node
//
// Checks is the entry point. A kubelet answers only checks about itself, the node's size, and logs below /var/log. It
// does not show anything about the network.
package kubeletproxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// byKubelet has the checks that a kubelet can answer, by ID, each with the function that queries it. If the function is
// nil, the check's own function is used, which also runs on the node: it reads the files below /var/log.
var byKubelet = map[string]func(*Kubelet, context.Context, *probe.Pass){
	probe.CheckKubeletHealth: (*Kubelet).health,
	probe.CheckDaemonLog:     nil,
	probe.CheckNodeDisk:      (*Kubelet).disk,
	probe.CheckNodeMemory:    (*Kubelet).memory,
	probe.CheckNodeSwap:      (*Kubelet).swap,
	probe.CheckCalicoLog:     nil,
	probe.CheckCalicoErrors:  nil,
	probe.CheckKubeLog:       nil,
}

// KubeletAnswers reports whether a kubelet can answer a check.
func KubeletAnswers(c *probe.Check) bool {
	_, is := byKubelet[c.ID]
	return is
}

// Checks returns the checks that the kubelet can answer, with their own IDs and facts, bound to this kubelet.
func (k *Kubelet) Checks() []*probe.Check {
	k.summary = once(k.readSummary)
	var out []*probe.Check
	for _, c := range suite.Node() {
		if !KubeletAnswers(c) {
			continue
		}
		own := *c
		own.Limit, own.Needs = kubeletCheck, nil
		own.Run = func(ctx context.Context, p *probe.Pass) {
			if run := byKubelet[c.ID]; run != nil {
				run(k, ctx, p)
				return
			}
			pass := *p
			pass.Host = p.Host.At(&kubeletLogs{k, ctx})
			c.Run(ctx, &pass)
		}
		out = append(out, &own)
	}
	return out
}

// once returns a function that makes one request and returns the answer to all callers.
func once[T any](ask func(context.Context) (T, error)) func(context.Context) (T, error) {
	var mu sync.Mutex
	var done bool
	var out T
	var err error
	return func(ctx context.Context) (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			out, err = ask(ctx)
			done = true
		}
		return out, err
	}
}

// health reports the kubelet's own health. The answer came through the kubelet's port 10250, so this port works.
func (k *Kubelet) health(ctx context.Context, p *probe.Pass) {
	a, err := k.get(ctx, "/healthz", "", maxText)
	e, answered := errors.AsType[*KubeletError](err)
	switch {
	case err == nil:
		p.Report(probe.Found(probe.OK, "%d through the API server", a.code).On("healthz").With(probe.FactCode, a.code))
	case answered && !e.ByAPI && e.Code == http.StatusInternalServerError:
		p.Report(probe.Found(probe.Fail, "500 through the API server: %s", probe.Quoted(failing(a.body))).On("healthz").
			With(probe.FactCode, a.code))
	default:
		p.Report(node.Unseen(err).On("healthz"))
		return
	}
	p.Report(probe.Found(probe.OK, "the API server reaches the kubelet").On("api"))
	switch s, err := k.summary(ctx); {
	case err == nil && s.failed != "":
		p.Report(probe.Found(probe.Info, "the kubelet cannot report usage (%s), so memory and disks come from its metrics", s.failed).
			On("stats"))
	case err == nil && s.hung:
		p.Report(probe.Found(probe.Warn, "the kubelet answers, but requests that need the container runtime (/stats/summary) take longer than %v: the runtime hangs or is very slow",
			kubeletLimit).On(probe.TargetRuntime))
	}
}

// failing returns the failed lines of a health endpoint's answer or, if there are none, all lines.
func failing(body []byte) string {
	well := func(line string) bool { return !strings.HasPrefix(line, "[-]") }
	lines := slices.DeleteFunc(strings.Split(string(body), "\n"), well)
	if len(lines) == 0 {
		return string(body)
	}
	return strings.Join(lines, "; ")
}
