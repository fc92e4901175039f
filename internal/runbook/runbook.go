// Package runbook runs written procedures (YAML, with conditions in CEL): what to check on which node, what to conclude
// from the answers, whom to notify. Load reads and lints a runbook. Engine.Do runs it and returns a Record. The package
// does not access nodes or terminals itself: World has functions that run checks, ask a person and start commands. It
// does not change anything unless the user allows an action by name and confirms it.
package runbook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
)

// APIVersion and Kind identify the files that this version reads.
const (
	APIVersion = "calico-probe.io/v1alpha1"
	Kind       = "Runbook"
)

// Runbook is one file.
type Runbook struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`

	source   string
	warnings []Finding
}

// Metadata names a runbook.
type Metadata struct {
	Name string `json:"name"` // kebab-case; a runbook with the name of a built-in runbook replaces it
}

// Spec is the procedure.
type Spec struct {
	Title       string   `json:"title"`                 // a few words for the engineer on call
	Description string   `json:"description,omitempty"` // its purpose, and what it does not do
	Alerts      []string `json:"alerts,omitempty"`      // alerts that it answers
	Params      []Param  `json:"params,omitempty"`
	Steps       []Step   `json:"steps"`
}

// Alert parses a runbook's alert: a name, and matchers for other labels in Alertmanager's syntax, such as
// NAME{pod=~"calico-node-.+"}.
func Alert(text string) (name string, matchers []*labels.Matcher, err error) {
	name, rest, some := strings.Cut(text, "{")
	if name = strings.TrimSpace(name); name == "" {
		return "", nil, fmt.Errorf("the alert %q has no name", text)
	}
	if !some {
		return name, nil, nil
	}
	if matchers, err = labels.ParseMatchers("{" + rest); err != nil {
		return "", nil, fmt.Errorf(`%s: %w: write NAME{LABEL="VALUE"}`, text, err)
	}
	return name, matchers, nil
}

// Param is a string that the user sets. The node is always set.
type Param struct {
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Default     *string `json:"default,omitempty"` // nil = required
}

// Step does one thing: exactly one of the fields below When is set. Texts are templates with ${EXPRESSION}, and $${ for
// a literal ${.
type Step struct {
	Name string `json:"name,omitempty"` // kebab-case, unique in the runbook
	When string `json:"when,omitempty"` // CEL, bool; if false, the step is skipped

	Run      *Run      `json:"run,omitempty"`
	Fleet    *Fleet    `json:"fleet,omitempty"`
	Check    *Check    `json:"check,omitempty"`
	Note     string    `json:"note,omitempty"` // a text for the record
	Ask      *Ask      `json:"ask,omitempty"`
	Assert   *Assert   `json:"assert,omitempty"`
	Wait     *Wait     `json:"wait,omitempty"`
	Notify   *Notify   `json:"notify,omitempty"`
	Action   *Action   `json:"action,omitempty"`
	Choose   []Branch  `json:"choose,omitempty"` // the first branch whose condition is true
	Conclude *Conclude `json:"conclude,omitempty"`
}

// Run examines nodes as 'calico-probe run' does. Its results on the runbook's node replace the values of results,
// causes and verdict in expressions.
type Run struct {
	Checks  []string `json:"checks,omitempty"`  // same as --checks
	Skip    []string `json:"skip,omitempty"`    // same as --skip
	Profile string   `json:"profile,omitempty"` // same as --profile; excludes checks
	Via     string   `json:"via,omitempty"`     // same as --via
	// On selects the nodes; nil = the runbook's node.
	On *Nodes `json:"on,omitempty"`
}

// Nodes selects nodes; exactly one field is set.
type Nodes struct {
	Names    []string `json:"names,omitempty"`    // templates with ${EXPRESSION}
	Selector string   `json:"selector,omitempty"` // label selector, same syntax as kubectl's -l
	Others   int      `json:"others,omitempty"`   // this number of other ready nodes
}

// Check is a user-defined check: a program on the client's machine, or an expression over the results so far. Its
// result is added to the other results under its ID.
type Check struct {
	ID   string `json:"id"` // kebab-case, not the ID of a built-in check
	Asks string `json:"asks"`
	// exit code 0 = ok, 1 = a fault, others = unknown; the first line of output is the observation
	Command []string `json:"command,omitempty"`
	// That is a bool expression that replaces the command. Saw is the text of the observation.
	That  string   `json:"that,omitempty"`
	Saw   string   `json:"saw,omitempty"`
	Limit Duration `json:"limit,omitempty"` // time limit of the command; 0 = 10s
}

// Ask asks the user a question. Expressions read the answer as answers.NAME, where NAME is the step's name.
type Ask struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"` // nil = any text
	Default  *string  `json:"default,omitempty"` // used if there is no person to ask; nil = the runbook stops, incomplete
	// the option that leaves the runbook open: a resume asks the question again
	Later string `json:"later,omitempty"`
}

// Assert stops the runbook if its condition is false.
type Assert struct {
	That string `json:"that"` // CEL, bool
	Else string `json:"else"` // the message if it is false
}

// Wait repeats a run until a condition is true.
type Wait struct {
	Until  string   `json:"until"` // CEL, bool
	Within Duration `json:"within"`
	Every  Duration `json:"every,omitempty"` // 0 = 15s
	Run    *Run     `json:"run,omitempty"`   // nil = the last run on the node
	Else   string   `json:"else,omitempty"`  // the message if it is still false at the end; the runbook then stops
}

// Notify sends a notification: exactly one of Webhook and Command is set.
type Notify struct {
	Webhook *Webhook `json:"webhook,omitempty"`
	Command []string `json:"command,omitempty"` // on the client's machine; stdin has the record so far as JSON
}

// Webhook is an HTTP endpoint that receives the record so far, as JSON.
type Webhook struct {
	URL      string `json:"url,omitempty"`
	URLFrom  string `json:"urlFrom,omitempty"`  // environment variable with the URL, if it is a secret
	AuthFrom string `json:"authFrom,omitempty"` // environment variable with the Authorization header
	Body     string `json:"body,omitempty"`     // a text instead of the record
	As       string `json:"as,omitempty"`       // slack or teams: a message in that format instead of the record
}

// Action is a repair. It runs only if --allow-actions names its step, and the user has seen the dry run and confirmed.
type Action struct {
	Says    string   `json:"says"`    // what it does
	Touches string   `json:"touches"` // what it disrupts, and for how long
	DryRun  []string `json:"dryRun"`  // a command that shows what it would do
	// Keep has commands whose output shows what the action destroys, such as a log. They run after the dry run, and the
	// record keeps the last lines of their output.
	Keep    [][]string `json:"keep,omitempty"`
	Command []string   `json:"command"`
}

// Branch is one alternative of a choose.
type Branch struct {
	Name  string `json:"name"`           // kebab-case, unique in the runbook
	When  string `json:"when,omitempty"` // CEL, bool; "" = otherwise, only in the last branch
	Steps []Step `json:"steps,omitempty"`
}

// Conclude ends the runbook.
type Conclude struct {
	Verdict string `json:"verdict,omitempty"` // healthy, warnings, fault or incomplete; "" = that of the last run
	Says    string `json:"says"`              // the conclusion, for the ticket
	Next    string `json:"next,omitempty"`
}

// each calls f with every step, including nested steps.
func (rb *Runbook) each(f func(*Step)) {
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for i := range steps {
			f(&steps[i])
			for _, b := range steps[i].Choose {
				walk(b.Steps)
			}
		}
	}
	walk(rb.Spec.Steps)
}

// kinds returns the fields of a step that define its operation.
func kinds() []string {
	return slices.DeleteFunc(fieldsOf(reflect.TypeFor[Step]()), func(f string) bool { return f == "name" || f == "when" })
}

// kind returns the operations of a step: the names of the fields that are set.
func (s *Step) kind() (set []string) {
	v := reflect.ValueOf(s).Elem()
	for f, value := range v.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); slices.Contains(kinds(), name) && !value.IsZero() {
			set = append(set, name)
		}
	}
	return set
}

// Duration is a duration such as 90s or 5m.
type Duration time.Duration

// UnmarshalJSON parses a text as time.ParseDuration does.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" { // by encoding/json's convention, null does not change the value
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a duration: write 90s or 5m", b)
	}
	v, err := parseDuration(text)
	*d = v
	return err
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }
