// Package diagnose names the causes that explain what a run saw. A rule is a
// value: prose for people, and a pure function over the results of one or many
// nodes that gives evidence for and against. There is no clock and no I/O here, so
// a saved run gives the same causes as the live one.
//
// A rule never only restates one failing check: it says why that fails, which
// look-alikes it is not, or what else follows from it.
package diagnose
