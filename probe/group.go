package probe

// Group is a set of nodes of a fleet with the same cause, or with bad results of one check that no cause explains.
type Group struct {
	Cause      string     `json:"cause,omitempty"`      // the ID of the rule
	Check      string     `json:"check,omitempty"`      // the check, if there is no cause
	Confidence Confidence `json:"confidence,omitempty"` // of the node with the highest confidence
	Nodes      []string   `json:"nodes"`                // by name
	Of         int        `json:"of"`                   // how many nodes were judged
	Abouts     []string   `json:"abouts,omitempty"`     // peers, devices, ..., the most frequent first
	// Between are the two ends of a cause that lies between two nodes, or at either: nothing proves which.
	Between []string `json:"between,omitempty"`
	Common  *Common  `json:"common,omitempty"` // what distinguishes them from the others
	Example Example  `json:"example"`          // one of them
	// Witnesses are nodes whose own causes or failed checks follow from a fault on a node of the group. This alone
	// puts them in no group.
	Witnesses     []Witness `json:"witnesses,omitempty"`
	MoreWitnesses int       `json:"more_witnesses,omitempty"` // how many more there are
	// Affected maps a node of the group to the other nodes that are bad only because of it. Each node is in one
	// group.
	Affected map[string][]string `json:"affected,omitempty"`
}

// Witness is a node with a cause that is about another node, or with a failed check that a cause there explains.
type Witness struct {
	Node  string `json:"node"`
	Cause string `json:"cause,omitempty"` // the ID of the rule
	Check string `json:"check,omitempty"` // the check, if no cause of the node explains it
	About string `json:"about"`           // the other node
}

// Common is an attribute that nodes of a group share and most other nodes do not have.
type Common struct {
	Attribute string `json:"attribute"` // zone, kernel, ..., or the key of a label
	Value     string `json:"value"`
	Has       int    `json:"has"`       // how many nodes of the group have it
	Others    int    `json:"others"`    // how many other nodes have it
	OthersOf  int    `json:"others_of"` // how many other nodes there are
}

// Example represents a group: its node with the highest confidence, with the cause or the answer there.
type Example struct {
	Node   string  `json:"node"`
	Cause  *Cause  `json:"cause,omitempty"`
	Result *Result `json:"result,omitempty"`
}
