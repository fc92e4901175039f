package probe

// Group is a set of nodes of a fleet with the same cause, or with bad results of one check that no cause explains.
type Group struct {
	Cause      string     `json:"cause,omitempty"`      // the rule's ID
	Check      string     `json:"check,omitempty"`      // the check, if there is no cause
	Confidence Confidence `json:"confidence,omitempty"` // the highest confidence of its nodes
	Nodes      []string   `json:"nodes"`                // by name
	Of         int        `json:"of"`                   // how many nodes were judged
	Abouts     []string   `json:"abouts,omitempty"`     // peers, devices, ..., the most frequent first
	// Between are the two ends of a cause that is between two nodes or on one of them: there is no proof which.
	Between []string `json:"between,omitempty"`
	Common  *Common  `json:"common,omitempty"` // what distinguishes its nodes from other nodes
	Example Example  `json:"example"`          // one of its nodes
	// Witnesses are nodes whose causes or failed checks follow from a fault on a node of the group. They are not in a
	// group because of this alone.
	Witnesses     []Witness `json:"witnesses,omitempty"`
	MoreWitnesses int       `json:"more_witnesses,omitempty"` // how many more witnesses there are
	// Affected maps a node of the group to the other nodes that are bad only because of that node. Each node is in one
	// group.
	Affected map[string][]string `json:"affected,omitempty"`
}

// Witness is a node with a cause about another node, or with a failed check that a cause on another node explains.
type Witness struct {
	Node  string `json:"node"`
	Cause string `json:"cause,omitempty"` // the rule's ID
	Check string `json:"check,omitempty"` // the check, if no cause of the node explains it
	About string `json:"about"`           // the other node
}

// Common is an attribute that nodes of a group share and most other nodes lack.
type Common struct {
	Attribute string `json:"attribute"` // zone, kernel, ..., or the key of a label
	Value     string `json:"value"`
	Has       int    `json:"has"`       // how many nodes of the group have it
	Others    int    `json:"others"`    // how many other nodes have it
	OthersOf  int    `json:"others_of"` // total number of other nodes
}

// Example represents a group: the node with the highest confidence, and its cause or answer.
type Example struct {
	Node   string  `json:"node"`
	Cause  *Cause  `json:"cause,omitempty"`
	Result *Result `json:"result,omitempty"`
}
