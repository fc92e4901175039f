// Package diff compares the settings that two nodes report in node-state: what differs, and how likely that breaks
// something.
package diff
