// Package ask answers the checks of the overlay: tunnels and the sets of hosts, on the node. The probe alone links
// it.
package ask
