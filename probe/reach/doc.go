// Package reach tests how the node reaches other hosts. It connects, pings, looks up routes and queries DNS. It
// returns results in the words that checks use. It needs kernel interfaces. It does not choose targets, which is the
// task of the checks.
package reach
