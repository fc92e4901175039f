// Package diagnose names the causes that explain the results of a run:
//
//	events --> Findings --> Explain(findings, suite) --> Diagnosis: causes, unexplained checks
//	                        Rule.Match --> Case (clues for and against) --> Cause (confidence, fix)
//
// Explain is its entry point. A rule is a value: prose for people, and a pure function from the results of one or many
// nodes to evidence. The package has no clock and does no I/O, so a saved run gives the same causes as the live one. It
// runs no checks and contains no rules: the rules are in internal/subject.
//
// A rule never only restates one failed check. It explains why the check failed, which similar faults it excludes, or
// what else follows from the fault.
package diagnose
