// Package compare shows in a few lines how a node differs from its baseline nodes:
//
//	findings of all nodes -> Nodes -> checks that failed only here or on both, ports, both ends of BGP sessions
//
// Nodes is the entry point. The comparison has at most a dozen lines. The package does not run checks or name causes.
package compare
