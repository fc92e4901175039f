// Package probe holds the words every part of calico-probe shares - Check,
// Result, Target, Plan, Event - and the loop that answers a Plan with Events.
//
// A Check asks one question. What it saw goes out as Results, each a status,
// one sentence and typed facts. The package has words of Kubernetes and Calico -
// a Target is a pod, a Service or a BGP peer - and asks neither: the checks
// themselves live in internal/subject (asked on the node) and cluster (asked of the
// Kubernetes API), and both run through the same Runner, so that a live run, a
// saved file and a test are the same stream.
//
// Two laws hold everywhere: a fail needs an observation, and what could not be
// asked is unknown. Unknown never counts as ok.
package probe
