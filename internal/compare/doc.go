// Package compare shows in a few lines how a node differs from its baseline nodes: the checks that failed on it
// alone, and both ends of their BGP sessions. Nodes is its entry point: findings in, lines out. It runs no check and
// names no cause.
package compare
