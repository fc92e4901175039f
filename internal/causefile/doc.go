// Package causefile reads causes from Markdown, one file per cause. A file holds the cause's texts and, unless its
// match needs code, also its match.
//
//	bird-probe.md ─ front matter ─▶ what the engine must know: layer, what it explains, the match
//	              ├ # heading ────▶ title, and below it the doc
//	              └ ## Fix ───────▶ what to do, its commands and what they touch
//
// Must reads this program's causes, and Theirs reads an operator's folder. Only the client links this package. A
// package of internal/subject passes its embedded files, and a Go function for each match that needs code. This package
// does not judge results: it turns a match into a function for internal/diagnose. Matches in Go have the same function
// type.
//
// A match is a list of cases over named selections of findings:
//
//	find:
//	  held: ipam-files fail reason=locked     # results of one check, or of every-check, by status and facts
//	  pods: "@waiting-pods cni network"       # a selection shared by subjects, by name and arguments
//	cases:
//	- each: held                              # one case per finding; without it a single case
//	  if: held, not pods                      # which selections must have findings, and which must not
//	  about: "{held.target}"
//	  says: "an upgrade of {node} waits[ for {held.age_s:lasting}]: {held.saw}" # [...] only where no value is empty
//	  for: [proof held if pods, shows pods]   # weight and selection, and on what condition; "against" takes the same
//	  covers: [node-ping, each pods, "@calico-down"] # all of a check, what a selection found, what others share
//	  args: {holder: "process {held.holder}"} # {holder} of the fix, with its type; "@NAME" for several
//	  also:                                   # what one more selection adds to the case
//	  - {if: pods, says: "; {pods.count} pods wait"}
//
// The first case that holds is the answer. If it has "further: true", the cases below it are also tried. A case with
// "each" is tried for each finding.
package causefile
