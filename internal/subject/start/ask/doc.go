// Package ask answers the checks of the start of calico-node, on the node. The probe alone links it.
package ask
