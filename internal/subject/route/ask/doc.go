// Package ask answers the checks of routes and routing rules, on the node. The probe alone links it.
package ask
