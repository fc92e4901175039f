package probe

// Group is a set of nodes in a fleet that have the same cause. If no cause explains the results,
// the nodes have bad results of the same check.
type Group struct {
	Cause      string     `json:"cause,omitempty"`      // the rule's ID
	Check      string     `json:"check,omitempty"`      // the check, if there is no cause
	Confidence Confidence `json:"confidence,omitempty"` // the highest confidence among its nodes
	Nodes      []string   `json:"nodes"`                // by name
	Of         int        `json:"of"`                   // number of nodes that were evaluated
	Abouts     []string   `json:"abouts,omitempty"`     // peers, devices, ..., with the most frequent first
	// Between lists the two ends of a cause that is between two nodes or on one of them. The
	// evidence does not show where.
	Between []string `json:"between,omitempty"`
	Common  *Common  `json:"common,omitempty"` // what distinguishes its nodes from other nodes
	Example Example  `json:"example"`          // one of its nodes
	// Witnesses are nodes whose causes or failed checks result from a fault on a node of the group. This alone does
	// not make them members of a group.
	Witnesses     []Witness `json:"witnesses,omitempty"`
	MoreWitnesses int       `json:"more_witnesses,omitempty"` // number of further witnesses
	// Affected maps a node of the group to the other nodes that are bad only because of that node. Each node is in one
	// group.
	Affected map[string][]string `json:"affected,omitempty"`
}

// Witness is a node that has a cause about another node, or a failed check that a cause on another node explains.
type Witness struct {
	Node  string `json:"node"`
	Cause string `json:"cause,omitempty"` // the rule's ID
	Check string `json:"check,omitempty"` // the check, if no cause of the node explains it
	About string `json:"about"`           // the other node
}

// Common is an attribute that the nodes of a group share and that most other nodes lack.
type Common struct {
	Attribute string `json:"attribute"` // zone, kernel, ..., or the key of a label
	Value     string `json:"value"`
	Has       int    `json:"has"`       // number of nodes in the group that have it
	Others    int    `json:"others"`    // number of other nodes that have it
	OthersOf  int    `json:"others_of"` // total number of other nodes
}

// Example represents a group. It has the node with the highest confidence, and that node's cause or answer.
type Example struct {
	Node   string  `json:"node"`
	Cause  *Cause  `json:"cause,omitempty"`
	Result *Result `json:"result,omitempty"`
}
