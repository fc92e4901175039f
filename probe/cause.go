package probe

// Cause explains bad results of a run. The client concludes it from all results. It claims no more than was observed:
// Confidence is how sure it is, and Missing lists what would have raised that.
type Cause struct {
	ID         string     `json:"cause"`               // of the rule; never changes
	About      string     `json:"about,omitempty"`     // a peer or device, if one rule can match several
	Title      string     `json:"title,omitempty"`     // the fault in a few words; empty in older versions
	Says       string     `json:"says"`                // one sentence, with the details of this run
	Confidence Confidence `json:"confidence"`          // high, medium or low
	For        []Clue     `json:"for"`                 // the evidence
	Against    []Clue     `json:"against,omitempty"`   // evidence against it
	RuledOut   []string   `json:"ruled_out,omitempty"` // checks that one would suspect next, and that passed
	Missing    []string   `json:"missing,omitempty"`   // what is missing for more confidence: a check, and why
	Explains   []Follows  `json:"explains,omitempty"`  // bad results and other causes that follow from it
	Fault      bool       `json:"fault,omitempty"`     // it breaks traffic now, even if no check failed
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
	Medium Confidence = "medium" // it fits, but another cause may fit too, or proof is missing
	Low    Confidence = "low"    // worth a look
)

// Confidences lists every confidence, surest first.
func Confidences() []Confidence { return []Confidence{High, Medium, Low} }

// Clue is one observation that speaks for or against a cause.
type Clue struct {
	Check  string `json:"check"`
	Target string `json:"target,omitempty"`
	Node   string `json:"node,omitempty"` // the node where it was observed, if that is another node
	Status Status `json:"status"`
	Saw    string `json:"saw"`
}

// Follows is what a cause explains: a number of bad results of one check, or another cause.
type Follows struct {
	Check string `json:"check,omitempty"`
	Count int    `json:"count,omitempty"` // of its results
	Cause string `json:"cause,omitempty"`
}

// Fix is how to repair a cause. calico-probe never runs any of it.
type Fix struct {
	Says string `json:"says"` // one sentence
	// commands where Calico was installed from a manifest, and where the installation makes no difference
	Manifest []string `json:"manifest,omitempty"`
	Operator []string `json:"operator,omitempty"` // commands, where the Tigera operator manages Calico, if they differ
	Install  string   `json:"install,omitempty"`  // how Calico was installed: manifest, operator, "" when unknown
	Radius   string   `json:"radius"`             // what it touches, and for how long
	// OnlyIf are commands that are right only under a condition, or that delete something for good. They are separate
	// because readers copy the commands above at once.
	OnlyIf []Conditional `json:"only_if,omitempty"`
}

// Conditional is another fix, for when you have verified its condition.
type Conditional struct {
	If       string   `json:"if"` // the condition
	Manifest []string `json:"manifest"`
	Operator []string `json:"operator,omitempty"` // where the Tigera operator manages Calico, if they differ
}

// Block is a group of commands that are copied together.
type Block struct {
	If       string // the condition, "" for the fix itself
	Commands []string
}

// Blocks returns the commands for this installation, the fix first. If the installation is unknown, it returns those
// for both, each under its condition.
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
