// Package ask answers the checks of name resolution: cluster DNS and the node's resolvers, on the node. The probe
// alone links it.
package ask
