// Package ask answers the checks of Felix: its health endpoints, on the node. The probe alone links it.
package ask
