// Package ask answers the checks of the kubelet, on the node. The probe alone links it.
package ask
