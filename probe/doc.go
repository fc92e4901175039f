// Package probe defines the types that every part of calico-probe shares, and the loop that answers a Plan.
//
//	Plan (check IDs, Targets) → Runner.Run → start event, one event per Result, end event
//	                                       → one JSON line each (Encoder) → client (Decoder, Intake)
//
// Runner.Run answers one Plan. Runner.Serve wraps it in a session, which also runs Tools that a user types.
// A Check asks one question and reports Results: a status, one sentence and typed facts.
//
// The package has no checks of its own and contacts neither Kubernetes nor Calico, although its Targets are pods,
// Services and BGP peers. Checks on the node are in internal/subject, and checks of the Kubernetes API in its api
// packages. Both run through the same Runner, so a live run, a saved file and a test are the same stream.
//
// Two rules always apply. A fail needs an observation. If a check could not run, the result is unknown, which never
// counts as ok.
package probe
