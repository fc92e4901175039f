// Package alerts receives Alertmanager's notifications and starts a procedure on the node of each alert.
//
//	webhook -> Alert -> Routes: which procedure -> Cluster.Node: which node -> Job in the store
//	Job -> Cluster.Look on a worker -> Report in the store -> event on the node, page, metrics
//
// New is the entry point. There is one job for each node and procedure, and a limited number runs at a
// time. Accepted jobs survive a restart. The package does not know Kubernetes: a Cluster finds nodes,
// examines them and writes events.
package alerts

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
)

// Cluster is what a Server needs of the cluster. All of it honours its context and may be
// called at the same time.
type Cluster struct {
	// Node is the name of the node that has this name or this address; "" = there is none.
	Node func(ctx context.Context, nameOrAddress string) (string, error)
	// PodNode is the node a pod is on; "" = there is no such pod, or it is on none.
	PodNode func(ctx context.Context, namespace, pod string) (string, error)
	// Look carries out the procedure on the node of the job. The folder is the job's own:
	// what was left there when the program was killed is there the next time. An error
	// says that it could not be carried out.
	Look func(ctx context.Context, job Job, folder string) (Report, error)
	// Tell says on the node what came of it; false = the node got too many of late. Of a
	// job in which the program was killed it may be called once more.
	Tell func(ctx context.Context, job Job) (bool, error)
	// Page makes a page of what Look has given as JSON, also an older version's; nil = there is none.
	Page func(json []byte) (page.Page, error)
}

// The verdicts of a report.
const (
	Healthy    = report.WordHealthy
	Warnings   = report.WordWarnings
	Fault      = report.WordFault
	Incomplete = report.WordIncomplete
)

// verdicts lists them.
func verdicts() []string { return []string{Healthy, Warnings, Fault, Incomplete} }

// Report is what came of a job.
type Report struct {
	Verdict  string // Healthy, Warnings, Fault or Incomplete
	Says     string // the cause, or what else it came to, in one line
	JSON     []byte
	Markdown []byte
}

// Procedure is what is done about an alert: one of both is set.
type Procedure struct {
	Runbook string `json:"runbook,omitempty"`
	Profile string `json:"profile,omitempty"` // of a plain run
	Many    bool   `json:"many,omitempty"`    // that looks at all nodes at once
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

// A State is how far a job has come.
type State string

// The states of a job.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
)

// Job is one procedure on one node, or on many at once, for one alert or many.
type Job struct {
	ID        string    `json:"id"`              // of letters, digits and dashes; later ones sort behind
	Node      string    `json:"node"`            // ManyNodes of one that looks at many
	Nodes     []string  `json:"nodes,omitempty"` // which its alerts are about, of such a one
	Procedure Procedure `json:"procedure"`
	State     State     `json:"state"`
	Alerts    []Alert   `json:"alerts"`             // the first maxAlerts that it is for
	More      int       `json:"more,omitempty"`     // how many others
	Attempts  int       `json:"attempts,omitempty"` // how often it was begun
	Queued    time.Time `json:"queued"`
	Started   time.Time `json:"started,omitzero"` // the last time
	Ended     time.Time `json:"ended,omitzero"`
	Verdict   string    `json:"verdict,omitempty"`
	Says      string    `json:"says,omitempty"`
	Untold    string    `json:"untold,omitempty"` // why no event was written on the node
}

// Alert is one firing of an alert.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	StartsAt    time.Time         `json:"startsAt"`
	Name        string            `json:"name,omitempty"`   // its label alertname
	Labels      map[string]string `json:"labels,omitempty"` // nil = left out, of one of many
	Resolved    time.Time         `json:"resolved,omitzero"`
	firing      bool
	odd         string // why it cannot be taken for an alert, "" = it can
}

// key tells firings apart.
func (a Alert) key() string { return a.Fingerprint + "@" + a.StartsAt.UTC().Format(time.RFC3339Nano) }
