package facts

// The names that 'calico-probe conditions' writes on a Node.
const (
	ConditionHealthy = "CalicoHealthy"                     // the type of the condition
	PendingCondition = "calico-probe.io/pending-condition" // the annotation that stores a status between two rounds
)
