// Package ask answers the checks of paths of pods: their gateway, uplink and packet sizes, on the node. The probe
// alone links it.
package ask
