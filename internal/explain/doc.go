// Package explain writes what there is to know of a cause: its words, and what it rests on in a saved run. It judges
// nothing.
package explain
