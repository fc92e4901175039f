// Package criconn connects to the CRI socket of a container runtime. It opens the connection with the first call.
package criconn
