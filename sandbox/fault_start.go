package main

// startFaults are those of calico-node's start: its init containers, its budget, the
// datastore and Felix.
func startFaults() []fault { return nil }
