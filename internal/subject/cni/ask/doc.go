// Package ask answers the checks of CNI: plugins, their configuration, credentials and addresses, on the node. The
// probe alone links it.
package ask
