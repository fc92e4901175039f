package diagnose

import (
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// seconds is a span that is measured in seconds and reckoned with.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
}

// milliseconds is one of a packet's.
func milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}

// lasting is for how long something has been so.
func lasting(seconds float64) string { return probe.Age(time.Duration(seconds * float64(time.Second))) }

// num is a fact of the first of some findings, 0 without one.
func num(fs []Finding, key probe.Fact) float64 {
	for _, r := range fs {
		if n, ok := r.Facts.Num(key); ok {
			return n
		}
	}
	return 0
}

// names are the checks of some findings.
func names(fs []Finding) []string {
	var out []string
	for _, r := range fs {
		if !slices.Contains(out, r.Check) {
			out = append(out, r.Check)
		}
	}
	return out
}
