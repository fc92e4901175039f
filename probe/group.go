package probe

// Group is nodes of a fleet that have the same: a cause, or bad answers to a check that no cause explains.
type Group struct {
	Cause      string     `json:"cause,omitempty"`      // the ID of the rule
	Check      string     `json:"check,omitempty"`      // the check, where there is no cause
	Confidence Confidence `json:"confidence,omitempty"` // of the surest of the nodes
	Nodes      []string   `json:"nodes"`                // by name
	Of         int        `json:"of"`                   // how many nodes were judged
	Abouts     []string   `json:"abouts,omitempty"`     // what it is about, the most frequent first: peers, devices
	// Between are the two ends of a cause that lies between two nodes, or at either: nothing proves which.
	Between []string `json:"between,omitempty"`
	Common  *Common  `json:"common,omitempty"` // what sets them apart from the others
	Example Example  `json:"example"`          // one of them
	// Witnesses are nodes whose own causes or failed checks follow from what is wrong with a node of the group: they are
	// in no group for that.
	Witnesses     []Witness `json:"witnesses,omitempty"`
	MoreWitnesses int       `json:"more_witnesses,omitempty"` // how many there are beside those
	// Affected are, by the name of a node of the group, the other nodes that are bad only because of it. Each is in one
	// group.
	Affected map[string][]string `json:"affected,omitempty"`
}

// Witness is a node with a cause that is about another one, or with a failed check that a cause there explains.
type Witness struct {
	Node  string `json:"node"`
	Cause string `json:"cause,omitempty"` // the ID of the rule
	Check string `json:"check,omitempty"` // the check, where no cause of the node explains it
	About string `json:"about"`           // the other node
}

// Common is an attribute that nodes of a group share and most of the others have not.
type Common struct {
	Attribute string `json:"attribute"` // zone, kernel, ..., or the key of a label
	Value     string `json:"value"`
	Has       int    `json:"has"`       // how many of the group have it
	Others    int    `json:"others"`    // how many of the others have it
	OthersOf  int    `json:"others_of"` // how many others there are
}

// Example is what stands for a group: its surest node, with the cause or the answer there.
type Example struct {
	Node   string  `json:"node"`
	Cause  *Cause  `json:"cause,omitempty"`
	Result *Result `json:"result,omitempty"`
}
