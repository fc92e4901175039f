// Package ask answers the checks of container runtimes, on the node. The probe alone links it.
package ask
