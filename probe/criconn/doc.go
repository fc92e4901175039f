// Package criconn connects to a container runtime's CRI socket. It opens the connection at the first call.
package criconn
