// Package runbook runs written procedures (YAML, with conditions in CEL): what to check on which node, what to conclude
// from the answers, whom to notify. Load reads and lints one, Engine.Do runs it and returns a Record. The package
// reaches no node and no terminal itself: World has functions that run checks, ask a person and start commands. It
// changes nothing, unless the user allows an action by name and confirms it.
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

// APIVersion and Kind are those of the files this version reads.
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
	Name string `json:"name"` // kebab-case; built-in ones can be replaced by one of the same name
}

// Spec is the procedure.
type Spec struct {
	Title       string   `json:"title"`                 // what on-call sees, in a few words
	Description string   `json:"description,omitempty"` // what it is for, what it does not do
	Alerts      []string `json:"alerts,omitempty"`      // names of alerts it answers
	Params      []Param  `json:"params,omitempty"`
	Steps       []Step   `json:"steps"`
}

// Alert takes apart what a runbook names of alerts: a name, and matchers of other labels as
// Alertmanager writes them, as NAME{pod=~"calico-node-.+"}.
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

// Param is a value given by the user, a string. The node is always given.
type Param struct {
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Default     *string `json:"default,omitempty"` // nil = it has to be given
}

// Step does one thing: exactly one of the fields below When is set. Texts may hold
// ${EXPRESSION}, and $${ for a literal ${.
type Step struct {
	Name string `json:"name,omitempty"` // kebab-case, unique in the runbook
	When string `json:"when,omitempty"` // CEL, bool: else the step is left out

	Run      *Run      `json:"run,omitempty"`
	Fleet    *Fleet    `json:"fleet,omitempty"`
	Check    *Check    `json:"check,omitempty"`
	Note     string    `json:"note,omitempty"` // a text for the record
	Ask      *Ask      `json:"ask,omitempty"`
	Assert   *Assert   `json:"assert,omitempty"`
	Wait     *Wait     `json:"wait,omitempty"`
	Notify   *Notify   `json:"notify,omitempty"`
	Action   *Action   `json:"action,omitempty"`
	Choose   []Branch  `json:"choose,omitempty"` // the first that holds
	Conclude *Conclude `json:"conclude,omitempty"`
}

// Run asks nodes what 'calico-probe run' asks them. What is concluded about the node of
// the runbook replaces what expressions called results, causes and verdict before.
type Run struct {
	Checks  []string `json:"checks,omitempty"`  // as --checks
	Skip    []string `json:"skip,omitempty"`    // as --skip
	Profile string   `json:"profile,omitempty"` // as --profile; not beside checks
	Via     string   `json:"via,omitempty"`     // as --via
	// On is the nodes: nil = the node of the runbook.
	On *Nodes `json:"on,omitempty"`
}

// Nodes selects nodes; exactly one field is set.
type Nodes struct {
	Names    []string `json:"names,omitempty"`    // texts: may hold ${EXPRESSION}
	Selector string   `json:"selector,omitempty"` // of labels, as kubectl's -l
	Others   int      `json:"others,omitempty"`   // so many other nodes that are ready
}

// Check is a question of the user's own, answered by a program on the client's machine or
// by an expression over what was seen. Its result stands among the results under its ID.
type Check struct {
	ID   string `json:"id"` // kebab-case, none of the program's own
	Asks string `json:"asks"`
	// exits with 0 ok, 1 a fault, 2 and others not known; its first line is what it saw
	Command []string `json:"command,omitempty"`
	// That is an expression, bool, instead of a command; Saw says what it found, a text.
	That  string   `json:"that,omitempty"`
	Saw   string   `json:"saw,omitempty"`
	Limit Duration `json:"limit,omitempty"` // of the command; 0 = 10s
}

// Ask puts a question to the person who runs it. The answer is answers.NAME of its step.
type Ask struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"` // nil = any text
	Default  *string  `json:"default,omitempty"` // where no person can be asked; nil = the runbook stops there, incomplete
	// the option after which the runbook stays open: gone on with, it asks again
	Later string `json:"later,omitempty"`
}

// Assert stops the runbook where something does not hold.
type Assert struct {
	That string `json:"that"` // CEL, bool
	Else string `json:"else"` // what to say then
}

// Wait runs again and again until something holds.
type Wait struct {
	Until  string   `json:"until"` // CEL, bool
	Within Duration `json:"within"`
	Every  Duration `json:"every,omitempty"` // 0 = 15s
	Run    *Run     `json:"run,omitempty"`   // nil = what was asked of the node last
	Else   string   `json:"else,omitempty"`  // what to say where it never does; the runbook stops there
}

// Notify tells somebody: exactly one of Webhook and Command is set.
type Notify struct {
	Webhook *Webhook `json:"webhook,omitempty"`
	Command []string `json:"command,omitempty"` // on the client's machine; the record so far, JSON, on its stdin
}

// Webhook is where the record so far is posted, as JSON.
type Webhook struct {
	URL      string `json:"url,omitempty"`
	URLFrom  string `json:"urlFrom,omitempty"`  // environment variable that holds it, where it is a secret
	AuthFrom string `json:"authFrom,omitempty"` // environment variable with the Authorization header
	Body     string `json:"body,omitempty"`     // a text instead of the record
	As       string `json:"as,omitempty"`       // slack or teams: a message as these take it, instead of the record
}

// Action is a repair. It runs only where --allow-actions names its step, and after the
// person has seen the dry run and said yes.
type Action struct {
	Says    string   `json:"says"`    // what it does
	Touches string   `json:"touches"` // what it disturbs, and for how long
	DryRun  []string `json:"dryRun"`  // a command that shows what it would do
	// Keep are commands that show what is gone afterwards, as a log: started after the dry
	// run, shown with it, and their last lines kept in the record.
	Keep    [][]string `json:"keep,omitempty"`
	Command []string   `json:"command"`
}

// Branch is one way to go on.
type Branch struct {
	Name  string `json:"name"`           // kebab-case, unique in the runbook
	When  string `json:"when,omitempty"` // CEL, bool; "" = otherwise, in the last one only
	Steps []Step `json:"steps,omitempty"`
}

// Conclude ends the runbook.
type Conclude struct {
	Verdict string `json:"verdict,omitempty"` // healthy, warnings, fault or incomplete; "" = that of the last run
	Says    string `json:"says"`              // what it came to, for the ticket
	Next    string `json:"next,omitempty"`
}

// each calls f with every step, wherever it stands.
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

// kinds are the fields of a step that say what it does.
func kinds() []string {
	return slices.DeleteFunc(fieldsOf(reflect.TypeFor[Step]()), func(f string) bool { return f == "name" || f == "when" })
}

// kind is what a step does: the names of the fields that are set.
func (s *Step) kind() (set []string) {
	v := reflect.ValueOf(s).Elem()
	for f, value := range v.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); slices.Contains(kinds(), name) && !value.IsZero() {
			set = append(set, name)
		}
	}
	return set
}

// Duration is a time as people write it: 90s, 5m.
type Duration time.Duration

// UnmarshalJSON reads a text as time.ParseDuration does.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" { // which leaves a value as it is, by encoding/json's convention
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is no duration: write 90s or 5m", b)
	}
	v, err := parseDuration(text)
	*d = v
	return err
}

// MarshalJSON writes it as UnmarshalJSON reads it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }
