// Package evidence is what the causes of several subjects read out of a run's findings, and the sentences and fixes
// that they share. It names no cause.
package evidence
