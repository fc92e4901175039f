// Package ask answers the checks of Services: cluster addresses, node ports and kube-proxy, on the node. The probe
// alone links it.
package ask
