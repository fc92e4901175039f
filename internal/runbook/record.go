package runbook

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// recordVersion is the version of the record's and the journal's format.
const recordVersion = 1

// KindRecord distinguishes a Record from other JSON documents.
const KindRecord = "RunbookRecord"

// Record contains what a runbook ran, saw, decided and did. It is the output of -o json, and is sent to webhooks.
type Record struct {
	V       int    `json:"v"`
	Kind    string `json:"kind"`    // always RunbookRecord
	Version string `json:"version"` // of calico-probe
	Runbook string `json:"runbook"`
	Title   string `json:"title"`
	Digest  string `json:"digest"` // digest of the runbook's file
	Node    string `json:"node"`
	// Cluster is the examined cluster. It is not set with --via local and in records from older versions.
	Cluster *probe.Cluster    `json:"cluster,omitempty"`
	Params  map[string]string `json:"params"`
	By      string            `json:"by"` // user who started it
	Began   time.Time         `json:"began"`
	Steps   []Entry           `json:"steps"`
	Outcome *Outcome          `json:"outcome,omitempty"` // nil = unfinished
}

// Entry is one step that was reached, in the order of execution.
type Entry struct {
	Step string    `json:"step"`           // its position: 1, 3.swap.2
	Name string    `json:"name,omitempty"` // its name in the runbook
	Kind string    `json:"kind"`           // its operation: run, fleet, check, note, ...
	At   time.Time `json:"at,omitzero"`    // time of its run; only for steps that take time or have an effect
	// LeftOut is the condition that was false. If it is set, the fields below are not.
	LeftOut string `json:"left_out,omitempty"`

	Text     string    `json:"text,omitempty"`   // the note, the question, or the message of a failed assert or wait
	That     string    `json:"that,omitempty"`   // the expression of an assert or a wait
	Held     *bool     `json:"held,omitempty"`   // whether it was true
	Tries    int       `json:"tries,omitempty"`  // attempts of a wait
	Asked    []Asked   `json:"asked,omitempty"`  // results of a run, or of the last attempt of a wait
	Fleet    *Looked   `json:"fleet,omitempty"`  // results of a fleet
	Result   *Result   `json:"result,omitempty"` // result of a check
	Answer   *Answer   `json:"answer,omitempty"` // answer to an ask
	Choice   *Choice   `json:"choice,omitempty"`
	Notified *Notified `json:"told,omitempty"` // result of a notify
	Deed     *Deed     `json:"deed,omitempty"` // of an action
}

// Answer is an answer and its source.
type Answer struct {
	Text string `json:"text"`
	By   string `json:"by"` // a person, --answer or "default"
}

// Choice is the branch that was taken.
type Choice struct {
	Branch string   `json:"branch,omitempty"` // "" = no branch matched
	When   string   `json:"when,omitempty"`   // its expression; "" for a last branch without an expression
	Not    []string `json:"not,omitempty"`    // names of the branches above it, which did not match
}

// Notified is the result of a notification.
type Notified struct {
	Whom   string `json:"whom"` // a host or a command
	Failed string `json:"failed,omitempty"`
}

// Deed is the result of an action.
type Deed struct {
	Says    string   `json:"says"`
	Touches string   `json:"touches"`
	Command []string `json:"command"`
	NotRun  string   `json:"not_run,omitempty"` // why it did not run; "" if it did
	DryRun  string   `json:"dry_run,omitempty"` // output of the dry run
	Kept    []Kept   `json:"kept,omitempty"`    // output that shows what the action destroys
	By      string   `json:"by,omitempty"`      // who confirmed it
	Unsure  string   `json:"unsure,omitempty"`  // why it is unknown whether it ran; "" if it is known
	Before  string   `json:"before,omitempty"`  // why it is unknown whether an earlier attempt ran
	Exit    int      `json:"exit"`              // exit code; -1 = none
	Output  string   `json:"output,omitempty"`
}

// Kept is the output of a command before an action.
type Kept struct {
	Command []string  `json:"command"`
	At      time.Time `json:"at"`               // time of the output: a later attempt may have other output
	Lines   []string  `json:"lines,omitempty"`  // the last lines
	Failed  string    `json:"failed,omitempty"` // why there is no output
}

// Label returns the command, as a user would type it, and its time.
func (k Kept) Label() string {
	return Quoted(k.Command) + ", at " + k.At.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Outcome is the result of a runbook.
type Outcome struct {
	Verdict string    `json:"verdict"` // healthy, warnings, incomplete or fault
	Exit    int       `json:"exit"`
	Says    string    `json:"says,omitempty"`
	Next    string    `json:"next,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
}

// plainly cleans a text for a terminal or a file for people, on one line.
func plainly(text string) string { return probe.Plain(brief(text)) }
