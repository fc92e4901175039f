package runbook

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// recordVersion is that of the record and the journal.
const recordVersion = 1

// KindRecord tells a Record from other JSON.
const KindRecord = "RunbookRecord"

// Record is what was run, seen, decided and done, as -o json and webhooks have it.
type Record struct {
	V       int    `json:"v"`
	Kind    string `json:"kind"`    // RunbookRecord
	Version string `json:"version"` // of the program
	Runbook string `json:"runbook"`
	Title   string `json:"title"`
	Digest  string `json:"digest"` // of its file
	Node    string `json:"node"`
	// Cluster is the one that was asked; none by way of local, nor in what older versions kept.
	Cluster *probe.Cluster    `json:"cluster,omitempty"`
	Params  map[string]string `json:"params"`
	By      string            `json:"by"` // who started it
	Began   time.Time         `json:"began"`
	Steps   []Entry           `json:"steps"`
	Outcome *Outcome          `json:"outcome,omitempty"` // nil = it goes on
}

// Entry is one step that was come to, in the order of that.
type Entry struct {
	Step string    `json:"step"`           // where it stands: 1, 3.swap.2
	Name string    `json:"name,omitempty"` // its name in the runbook
	Kind string    `json:"kind"`           // what it does: run, fleet, check, note, ...
	At   time.Time `json:"at,omitzero"`    // when it was done, of what takes time or has an effect
	// LeftOut is the condition that did not hold; nothing below is there then.
	LeftOut string `json:"left_out,omitempty"`

	Text     string    `json:"text,omitempty"`   // the note, the question, what an assert or a wait says that did not hold
	That     string    `json:"that,omitempty"`   // the expression of an assert or a wait
	Held     *bool     `json:"held,omitempty"`   // whether it did
	Tries    int       `json:"tries,omitempty"`  // of a wait
	Asked    []Asked   `json:"asked,omitempty"`  // of a run, and the last of a wait
	Fleet    *Looked   `json:"fleet,omitempty"`  // of a fleet
	Result   *Result   `json:"result,omitempty"` // of a check
	Answer   *Answer   `json:"answer,omitempty"` // to an ask
	Choice   *Choice   `json:"choice,omitempty"`
	Notified *Notified `json:"told,omitempty"` // by a notify
	Deed     *Deed     `json:"deed,omitempty"` // of an action
}

// Answer is what was answered, and by whom.
type Answer struct {
	Text string `json:"text"`
	By   string `json:"by"` // a person, --answer or "default"
}

// Choice is a branch that was taken.
type Choice struct {
	Branch string   `json:"branch,omitempty"` // "" = none held
	When   string   `json:"when,omitempty"`   // the expression that did; "" = it is the last, and needs none
	Not    []string `json:"not,omitempty"`    // the branches above it that did not hold
}

// Notified is the receiver of a notification.
type Notified struct {
	Whom   string `json:"whom"` // a host, or a command
	Failed string `json:"failed,omitempty"`
}

// Deed is what became of an action.
type Deed struct {
	Says    string   `json:"says"`
	Touches string   `json:"touches"`
	Command []string `json:"command"`
	NotRun  string   `json:"not_run,omitempty"` // why, "" = it was
	DryRun  string   `json:"dry_run,omitempty"` // what that showed
	Kept    []Kept   `json:"kept,omitempty"`    // of what it destroys
	By      string   `json:"by,omitempty"`      // who confirmed it
	Unsure  string   `json:"unsure,omitempty"`  // why it is not known whether it was done, "" = it is
	Before  string   `json:"before,omitempty"`  // the same of the try before this one
	Exit    int      `json:"exit"`              // -1 = none
	Output  string   `json:"output,omitempty"`
}

// Kept is what a command showed before an action.
type Kept struct {
	Command []string  `json:"command"`
	At      time.Time `json:"at"`               // of a later try there may be others
	Lines   []string  `json:"lines,omitempty"`  // the last ones of it
	Failed  string    `json:"failed,omitempty"` // why there are none
}

// Label is which command it was, as one would type it, and when.
func (k Kept) Label() string {
	return Quoted(k.Command) + ", at " + k.At.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Outcome is what a runbook came to.
type Outcome struct {
	Verdict string    `json:"verdict"` // healthy, warnings, incomplete or fault
	Exit    int       `json:"exit"`
	Says    string    `json:"says,omitempty"`
	Next    string    `json:"next,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
}

// plainly cleans what goes to a terminal or a file for people, on one line.
func plainly(text string) string { return probe.Plain(brief(text)) }
