// Package alerts receives Alertmanager's notifications and starts a procedure on the node of each alert.
//
//	webhook -> Alert -> Routes: which procedure -> Cluster.Node: which node -> Job in the store
//	Job -> Cluster.Look on a worker -> Report in the store -> event on the node, page, metrics
//
// New is the entry point. Each combination of node and procedure has one job. The number of running jobs is limited.
// Accepted jobs survive a restart. The package does not use Kubernetes directly: a Cluster finds nodes, examines them
// and writes events.
package alerts

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
)

// Cluster has the cluster functions that a Server needs. All functions honour their context and are safe for concurrent
// use.
type Cluster struct {
	// Node returns the node with this name or address; "" = no such node.
	Node func(ctx context.Context, nameOrAddress string) (string, error)
	// PodNode returns the node of a pod; "" = no such pod, or not scheduled.
	PodNode func(ctx context.Context, namespace, pod string) (string, error)
	// Look runs the job's procedure on its node. If the program is killed, the job's folder keeps its content. An error
	// means that the procedure could not run.
	Look func(ctx context.Context, job Job, folder string) (Report, error)
	// Tell writes a job's result as an event on its node. It returns false if the node recently got too many events. If
	// the program is killed during a job, Tell may run twice for that job.
	Tell func(ctx context.Context, job Job) (bool, error)
	// Page returns the page for a Report's JSON, which an older version may have written. nil = no pages.
	Page func(json []byte) (page.Page, error)
}

// The verdicts of a report.
const (
	Healthy    = report.WordHealthy
	Warnings   = report.WordWarnings
	Fault      = report.WordFault
	Incomplete = report.WordIncomplete
)

// verdicts lists the valid verdicts.
func verdicts() []string { return []string{Healthy, Warnings, Fault, Incomplete} }

// Report is the result of a job.
type Report struct {
	Verdict  string // Healthy, Warnings, Fault or Incomplete
	Says     string // the cause or other result, in one line
	JSON     []byte
	Markdown []byte
}

// Procedure is the runbook or run for an alert: exactly one of Runbook and Profile is set.
type Procedure struct {
	Runbook string `json:"runbook,omitempty"`
	Profile string `json:"profile,omitempty"` // profile of a plain run
	Many    bool   `json:"many,omitempty"`    // examine all nodes at once
}

func (p Procedure) String() string {
	if p.Runbook != "" {
		return p.Runbook
	}
	if p.Many {
		return "many-" + p.Profile
	}
	return "run-" + p.Profile
}

// A State is the progress of a job.
type State string

// The states of a job.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
)

// Job is one procedure on one node, or on many nodes at once, for one or more alerts.
type Job struct {
	ID        string    `json:"id"`              // letters, digits and dashes; sorts by time
	Node      string    `json:"node"`            // ManyNodes for a job over many nodes
	Nodes     []string  `json:"nodes,omitempty"` // for a job over many nodes: the nodes in its alerts
	Procedure Procedure `json:"procedure"`
	State     State     `json:"state"`
	Alerts    []Alert   `json:"alerts"`             // its first alerts, at most maxAlerts
	More      int       `json:"more,omitempty"`     // number of further alerts
	Attempts  int       `json:"attempts,omitempty"` // number of starts
	Queued    time.Time `json:"queued"`
	Started   time.Time `json:"started,omitzero"` // start of the last attempt
	Ended     time.Time `json:"ended,omitzero"`
	Verdict   string    `json:"verdict,omitempty"`
	Says      string    `json:"says,omitempty"`
	NoEvent   string    `json:"untold,omitempty"` // why the node has no event
}

// Alert is one firing of an alert.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	StartsAt    time.Time         `json:"startsAt"`
	Name        string            `json:"name,omitempty"`   // label alertname
	Labels      map[string]string `json:"labels,omitempty"` // nil = dropped, because the job has too many alerts
	Resolved    time.Time         `json:"resolved,omitzero"`
	firing      bool
	odd         string // why the alert is invalid; "" = valid
}

// key returns the key that identifies a firing.
func (a Alert) key() string { return a.Fingerprint + "@" + a.StartsAt.UTC().Format(time.RFC3339Nano) }
