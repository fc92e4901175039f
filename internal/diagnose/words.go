package diagnose

import (
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Seconds converts a measured number of seconds.
func Seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
}

// Milliseconds converts a packet's time in milliseconds.
func Milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}

// Lasting formats a duration in seconds.
func Lasting(seconds float64) string { return probe.Age(time.Duration(seconds * float64(time.Second))) }

// Num returns a fact from the first of some findings, or 0 if there is no finding.
func Num(fs []Finding, key probe.Fact) float64 {
	for _, r := range fs {
		if n, ok := r.Facts.Num(key); ok {
			return n
		}
	}
	return 0
}

// ChecksOf returns the checks of some findings.
func ChecksOf(fs []Finding) []string {
	var out []string
	for _, r := range fs {
		if !slices.Contains(out, r.Check) {
			out = append(out, r.Check)
		}
	}
	return out
}

// CountOf formats a number and its noun.
func CountOf(n float64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%.0f %ss", n, what)
}
