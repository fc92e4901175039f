// Package explain prints the texts about checks and causes, and the evidence for a cause in a saved run. It does not
// judge anything: package diagnose does.
//
//	ID -> Cause, Checks -> text; saved run + rule -> diagnose.Why -> Run -> text
package explain
