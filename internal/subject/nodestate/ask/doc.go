// Package ask answers the checks of the node's settings, for comparison with a baseline node, on the node. The probe
// alone links it.
package ask
