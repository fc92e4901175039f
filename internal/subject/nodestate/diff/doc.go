// Package diff compares the settings of a node with those of baseline nodes, from their results of node-state:
//
//	diagnose.Findings -> StateOf (each node's items) -> Differences (ranked) -> package cause, and StateLines for people
//
// Differences is the entry point. Matters ranks a difference and names the checks that it can break. The package reads
// no node and names no cause: it only judges which of many differences deserve attention.
package diff
