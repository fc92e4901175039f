package diagnose

// startRules are those of calico-node's start, Felix, the datastore, services and the
// load of a node.
func startRules() []*Rule { return nil }
