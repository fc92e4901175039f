// Package ask answers the checks of BGP: BIRD, its sessions, configuration and port, on the node. The probe alone
// links it.
package ask
