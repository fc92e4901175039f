package probe

// Cause explains bad results of a run. The client derives it from all results. A cause does not claim more than the
// results show. Confidence rates how certain the cause is. Missing lists the checks that would raise the confidence.
type Cause struct {
	ID         string     `json:"cause"`               // the rule's ID; never changes
	About      string     `json:"about,omitempty"`     // the peer or device, if a rule can match several
	Title      string     `json:"title,omitempty"`     // the fault in a few words; empty in older versions
	Says       string     `json:"says"`                // one sentence, with the details of this run
	Confidence Confidence `json:"confidence"`          // high, medium or low
	For        []Clue     `json:"for"`                 // the evidence
	Against    []Clue     `json:"against,omitempty"`   // evidence against this cause
	RuledOut   []string   `json:"ruled_out,omitempty"` // suspects that the run cleared: checks that passed
	Missing    []string   `json:"missing,omitempty"`   // what would raise the confidence: a check, and the reason
	Explains   []Follows  `json:"explains,omitempty"`  // bad results and other causes that result from this cause
	Fault      bool       `json:"fault,omitempty"`     // traffic is broken now, even if no check failed
	Advice     string     `json:"advice,omitempty"`    // what to check before a change, and what not to do
	Fix        Fix        `json:"fix"`
	Runbooks   []string   `json:"runbooks,omitempty"` // for the symptoms that this cause produces
	Source     string     `json:"source,omitempty"`   // the folder of an operator's cause, "" for built-in causes
}

// Confidence rates how certain a cause is.
type Confidence string

// All possible confidences.
const (
	High   Confidence = "high"   // proven: only this cause produces this evidence
	Medium Confidence = "medium" // it fits, but another cause may also fit, or proof is missing
	Low    Confidence = "low"    // worth a look
)

// Confidences lists every confidence, highest first.
func Confidences() []Confidence { return []Confidence{High, Medium, Low} }

// Clue is one observation that supports or contradicts a cause.
type Clue struct {
	Check  string `json:"check"`
	Target string `json:"target,omitempty"`
	Node   string `json:"node,omitempty"` // the node where it was observed, if it is another node
	Status Status `json:"status"`
	Saw    string `json:"saw"`
}

// Follows is a consequence of a cause: bad results of one check, or another cause.
type Follows struct {
	Check string `json:"check,omitempty"`
	Count int    `json:"count,omitempty"` // number of results
	Cause string `json:"cause,omitempty"`
}

// Fix describes how to repair a cause. calico-probe never runs its commands.
type Fix struct {
	Says string `json:"says"` // one sentence
	// commands for an installation from a manifest, or for every installation
	Manifest []string `json:"manifest,omitempty"`
	Operator []string `json:"operator,omitempty"` // commands for an installation by the Tigera operator, if they differ
	Install  string   `json:"install,omitempty"`  // how Calico was installed: manifest or operator; "" if unknown
	Radius   string   `json:"radius"`             // what the fix affects, and for how long
	// OnlyIf lists commands that apply only under a condition, or that delete something permanently. They are separate
	// because readers immediately copy the commands above.
	OnlyIf []Conditional `json:"only_if,omitempty"`
}

// Conditional is a fix that you apply only after you have verified its condition.
type Conditional struct {
	If       string   `json:"if"` // the condition
	Manifest []string `json:"manifest"`
	Operator []string `json:"operator,omitempty"` // commands for an installation by the Tigera operator, if they differ
}

// Block is a group of commands that a reader copies together.
type Block struct {
	If       string // the condition; "" for the fix itself
	Commands []string
}

// Blocks returns the commands for this installation, with the fix first. If the installation method is unknown, it
// returns the commands for both methods, each with its condition.
func (f Fix) Blocks() []Block {
	var out []Block
	block := func(condition string, commands []string) {
		if len(commands) > 0 {
			out = append(out, Block{condition, commands})
		}
	}
	add := func(condition string, manifest, operator []string) {
		switch {
		case len(operator) == 0 || f.Install == "manifest":
			block(condition, manifest)
		case f.Install == "operator":
			block(condition, operator)
		default:
			if condition != "" {
				condition += ", and "
			}
			block(condition+"Calico was installed by a manifest", manifest)
			block(condition+"the Tigera operator manages Calico", operator)
		}
	}
	add("", f.Manifest, f.Operator)
	for _, c := range f.OnlyIf {
		add(c.If, c.Manifest, c.Operator)
	}
	return out
}
