// Package ask answers the checks of the firewall: walls, NAT, conntrack, and where packets die, on the node. The
// probe alone links it.
package ask
