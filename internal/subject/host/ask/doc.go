// Package ask answers the checks of the machine: memory, disks, load, clock, limits, its kernel, on the node. The
// probe alone links it.
package ask
