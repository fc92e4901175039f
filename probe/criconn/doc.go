// Package criconn connects to the CRI socket of a container runtime.
package criconn
