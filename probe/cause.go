package probe

// Cause is what explains bad results of a run, concluded by the client from
// everything that was seen. It names no more than was observed: how sure it is
// stands in Confidence, and in Missing what would have made it surer.
type Cause struct {
	ID         string     `json:"cause"`               // of the rule, for ever the same
	About      string     `json:"about,omitempty"`     // a peer, a device, where a rule can hold more than once
	Title      string     `json:"title,omitempty"`     // the fault in a few words; older versions have none
	Says       string     `json:"says"`                // one sentence, with this night's particulars
	Confidence Confidence `json:"confidence"`          // high, medium or low
	For        []Clue     `json:"for"`                 // the evidence
	Against    []Clue     `json:"against,omitempty"`   // what speaks against it
	RuledOut   []string   `json:"ruled_out,omitempty"` // checks one would suspect next, and that are fine
	Missing    []string   `json:"missing,omitempty"`   // what would have made it surer and is missing: a check, and why
	Explains   []Follows  `json:"explains,omitempty"`  // bad results and other causes that follow from it
	Fault      bool       `json:"fault,omitempty"`     // it breaks traffic now, even if no check failed
	Advice     string     `json:"advice,omitempty"`    // what to look at before anything is changed, and what not to do
	Fix        Fix        `json:"fix"`
	Runbooks   []string   `json:"runbooks,omitempty"` // for the symptoms that this cause makes
	Source     string     `json:"source,omitempty"`   // the folder of an operator's cause, "" for those of this program
}

// Confidence is how sure a cause is.
type Confidence string

// The closed list of confidences.
const (
	High   Confidence = "high"   // proven: nothing else makes this evidence
	Medium Confidence = "medium" // it fits, and so might something else, or proof is missing
	Low    Confidence = "low"    // worth a look
)

// Confidences lists every confidence, surest first.
func Confidences() []Confidence { return []Confidence{High, Medium, Low} }

// Clue is one observation that speaks for or against a cause.
type Clue struct {
	Check  string `json:"check"`
	Target string `json:"target,omitempty"`
	Node   string `json:"node,omitempty"` // where it was asked, when that is another node than the one in question
	Status Status `json:"status"`
	Saw    string `json:"saw"`
}

// Follows is what a cause explains away: so many bad results of a check, or
// another cause.
type Follows struct {
	Check string `json:"check,omitempty"`
	Count int    `json:"count,omitempty"` // of its results
	Cause string `json:"cause,omitempty"`
}

// Fix is what to do about a cause. Nothing of it is ever run by us.
type Fix struct {
	Says string `json:"says"` // one sentence
	// commands, where Calico was installed by a manifest, and where it makes no difference
	Manifest []string `json:"manifest,omitempty"`
	Operator []string `json:"operator,omitempty"` // commands, where the Tigera operator manages Calico, if they differ
	Install  string   `json:"install,omitempty"`  // which of both this cluster is: manifest, operator, "" when not known
	Radius   string   `json:"radius"`             // what it touches, and for how long
	// OnlyIf are commands that are right under a condition alone, or take something away for
	// good. They are none of the above, which somebody copies at once.
	OnlyIf []Conditional `json:"only_if,omitempty"`
}

// Conditional is what else can be done, once one has looked and knows that it is right.
type Conditional struct {
	If       string   `json:"if"` // what has to be so
	Manifest []string `json:"manifest"`
	Operator []string `json:"operator,omitempty"` // where the Tigera operator manages Calico, if they differ
}

// Block are commands that belong together, and are copied at once.
type Block struct {
	If       string // what has to be so, "" for the fix itself
	Commands []string
}

// Blocks are the commands for the install there is, the fix first; where that is not known
// those for either, each under its condition.
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
