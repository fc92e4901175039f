// Package ask answers the checks of the link: the node's uplink, addresses, neighbours and sysctls, on the node. The
// probe alone links it.
package ask
