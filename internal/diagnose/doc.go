// Package diagnose names the causes that explain the results of a run:
//
//	events --> Findings --> Explain(findings, suite) --> Diagnosis: causes, unexplained checks
//	                        Rule.Match --> Case (clues for and against) --> Cause (confidence, fix)
//
// Explain is its entry point. A rule is a value. It has prose for people, and a pure function that maps the results of
// one or more nodes to evidence. The package does not use a clock or do I/O, so a saved run has the same causes as the
// live run. It does not run checks or contain rules: the rules are in internal/subject.
//
// A rule must not only restate one failed check. It explains why the check failed, which similar faults are excluded,
// or what else follows from the fault.
package diagnose
