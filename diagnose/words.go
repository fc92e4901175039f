package diagnose

import (
	"fmt"
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

// lasting is for how long something has been so, as people say it.
func lasting(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0fs", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.0fm", seconds/60)
	case seconds < 172800:
		return fmt.Sprintf("%.0fh", seconds/3600)
	}
	return fmt.Sprintf("%.0fd", seconds/86400)
}

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
