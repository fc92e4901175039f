// Package probe defines the types that all parts of calico-probe share, and the loop that answers a Plan.
//
//	Plan (check IDs, Targets) → Runner.Run → start event, one event per Result, end event
//	                                       → one JSON line each (Encoder) → client (Decoder, Intake)
//
// Runner.Run answers one Plan. Runner.Serve wraps it in a session, which also runs the Tools that a user
// types. A Check asks one question and reports Results. A Result has a status, one sentence and typed facts.
//
// The package contains no checks. Its Targets are pods, Services and BGP peers, but it does not contact
// Kubernetes or Calico. Checks that run on the node are in internal/subject. Checks of the Kubernetes API are in
// the api packages there. Both kinds run through the same Runner. A live run, a saved file and a test therefore
// have the same stream of events.
//
// Two rules always apply. A result is fail only if the check observed a fault. If a check could not run, its result
// is unknown. Unknown never counts as ok.
package probe
