package causefile

import "go.yaml.in/yaml/v3"

// front is the front matter of a file.
type front struct {
	Layer    string
	Symptom  bool
	Later    bool
	Open     bool
	Residual bool
	Apart    bool
	Compares bool
	TracedBy string `yaml:"traced-by"`
	Runbooks []string
	Advice   string // the name of a shared advice; "" = the file's own

	RefutedBy []string `yaml:"refuted-by"`
	Wants     []string
	RuledOut  []string `yaml:"ruled-out"`
	Explains  []string

	Fix   string   // the name of a shared fix; "" = the file's own
	Fixes []string // shared fixes that a match in Go uses for some cases
	Find  map[string]alternatives
	Words map[string]wordList
	Cases []caseData
}

// caseData is one case of a match in a file, with its additions.
type caseData struct {
	Each     string // a selection: each of its findings makes one case
	If       string
	About    string
	Peer     string
	Family   string
	Fault    bool
	Further  bool // also try the cases below
	moreData `yaml:",inline"`
	Also     []alsoData
}

// alsoData is an addition to a case.
type alsoData struct {
	If       string
	Instead  string // replaces the sentence, while "says" extends it
	moreData `yaml:",inline"`
}

// moreData holds the parts common to cases and additions.
type moreData struct {
	Says    string
	For     clueList
	Against clueList
	Covers  []string
	Args    map[string]string
	Fix     string
}

// alternatives is a selection: one text, or several texts whose findings are joined in order.
type alternatives []string

// UnmarshalYAML reads one text, or a list of them.
func (a *alternatives) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*a = alternatives{n.Value}
		return nil
	}
	return n.Decode((*[]string)(a))
}

// clueList is "strong held, shows pods", or a list of such texts.
type clueList []string

// UnmarshalYAML reads one text, or a list of them.
func (c *clueList) UnmarshalYAML(n *yaml.Node) error { return (*alternatives)(c).UnmarshalYAML(n) }

// wordList maps values to the words that replace them in a sentence. The key "other" stands for all other values.
type wordList map[string]string
