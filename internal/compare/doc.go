// Package compare says in a few lines how a node differs from its baseline nodes: what is bad on it alone, and both
// ends of their BGP sessions.
package compare
