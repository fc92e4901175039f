// Package reach tests how the node reaches something else: it connects, pings, looks up routes and queries DNS, and
// returns results in the words of the checks. It needs the kernel's interfaces. It does not choose targets: the checks
// do that.
package reach
