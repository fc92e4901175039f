package probe

// Cause explains bad results of a run. The client concludes it from all results. A cause claims no more than was
// observed. Confidence is how sure it is, and Missing lists the checks that would raise it.
type Cause struct {
	ID         string     `json:"cause"`               // the rule's ID; never changes
	About      string     `json:"about,omitempty"`     // the peer or device, if a rule can match several
	Title      string     `json:"title,omitempty"`     // the fault in a few words; empty in older versions
	Says       string     `json:"says"`                // one sentence, with the details of this run
	Confidence Confidence `json:"confidence"`          // high, medium or low
	For        []Clue     `json:"for"`                 // the evidence
	Against    []Clue     `json:"against,omitempty"`   // evidence against the cause
	RuledOut   []string   `json:"ruled_out,omitempty"` // the next suspects: checks that passed
	Missing    []string   `json:"missing,omitempty"`   // what is missing for more confidence: a check, and why
	Explains   []Follows  `json:"explains,omitempty"`  // bad results and other causes that follow from it
	Fault      bool       `json:"fault,omitempty"`     // traffic is broken now, even if no check failed
	Advice     string     `json:"advice,omitempty"`    // what to check before a change, and what not to do
	Fix        Fix        `json:"fix"`
	Runbooks   []string   `json:"runbooks,omitempty"` // for the symptoms of this cause
	Source     string     `json:"source,omitempty"`   // the folder of an operator's cause, "" for built-in ones
}

// Confidence is how sure a cause is.
type Confidence string

// The closed list of confidences.
const (
	High   Confidence = "high"   // proven: only this cause produces this evidence
	Medium Confidence = "medium" // fits, but another cause may also fit, or proof is missing
	Low    Confidence = "low"    // worth a look
)

// Confidences lists every confidence, highest first.
func Confidences() []Confidence { return []Confidence{High, Medium, Low} }

// Clue is one observation that speaks for or against a cause.
type Clue struct {
	Check  string `json:"check"`
	Target string `json:"target,omitempty"`
	Node   string `json:"node,omitempty"` // the node of the observation, if that is another node
	Status Status `json:"status"`
	Saw    string `json:"saw"`
}

// Follows is a consequence of a cause: bad results of one check, or another cause.
type Follows struct {
	Check string `json:"check,omitempty"`
	Count int    `json:"count,omitempty"` // number of results
	Cause string `json:"cause,omitempty"`
}

// Fix is how to repair a cause. calico-probe never runs its commands.
type Fix struct {
	Says string `json:"says"` // one sentence
	// commands if Calico was installed from a manifest, or if the installation makes no difference
	Manifest []string `json:"manifest,omitempty"`
	Operator []string `json:"operator,omitempty"` // commands if the Tigera operator manages Calico, when different
	Install  string   `json:"install,omitempty"`  // how Calico was installed: manifest, operator, "" when unknown
	Radius   string   `json:"radius"`             // what the fix touches, and for how long
	// OnlyIf are commands that apply only under a condition, or delete something permanently. They are separate because
	// readers copy the commands above at once.
	OnlyIf []Conditional `json:"only_if,omitempty"`
}

// Conditional is a fix for use after you have verified its condition.
type Conditional struct {
	If       string   `json:"if"` // the condition
	Manifest []string `json:"manifest"`
	Operator []string `json:"operator,omitempty"` // if the Tigera operator manages Calico, when different
}

// Block is a group of commands that are copied together.
type Block struct {
	If       string // the condition, "" for the fix itself
	Commands []string
}

// Blocks returns the commands for this installation, the fix first. If the installation is unknown, it returns the
// commands for both, each under its condition.
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
