package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// FamilyOf returns a result's IP family, or 0 if the result is about both families or neither.
func FamilyOf(r Finding) int {
	if n, ok := r.Facts.Num(probe.FactFamily); ok {
		return int(n)
	}
	for name, f := range map[string]int{"IPv4": 4, "IPv6": 6} {
		if r.Check == facts.CheckIPRegistered && strings.HasPrefix(r.Target, name) {
			return f
		}
	}
	return 0
}

func FamilyName(f int) string { return map[int]string{4: "IPv4", 6: "IPv6"}[f] }

// NodeOf returns the other node that a result is about, or "" if none.
func NodeOf(r Finding) string { return r.Facts.Str(probe.FactNode) }

// ReasonOf returns the reason in a result, which is one word.
func ReasonOf(r Finding) string { return r.Facts.Str(probe.FactReason) }

// Answer returns the node's own result of a check about one target.
func Answer(f Findings, check, target string) (Finding, bool) {
	for _, r := range f.Of(check) {
		if r.Target == target && r.From == "" {
			return r, true
		}
	}
	return Finding{}, false
}

// Keep returns the findings that fits accepts.
func Keep(fs []Finding, fits func(Finding) bool) []Finding {
	var out []Finding
	for _, r := range fs {
		if fits(r) {
			out = append(out, r)
		}
	}
	return out
}

// ListOf reads a list of texts. Its type is different if it was decoded from JSON.
func ListOf(r Finding, key probe.Fact) []string {
	switch v := r.Facts[key].(type) {
	case []string:
		return v
	case []any:
		var out []string
		for _, one := range v {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// TextsOf reads a map of texts. Its type is different if it was decoded from JSON.
func TextsOf(r Finding, key probe.Fact) map[string]string {
	out := map[string]string{}
	switch v := r.Facts[key].(type) {
	case map[string]string:
		return v
	case map[string]any:
		for name, one := range v {
			if text, ok := one.(string); ok {
				out[name] = text
			}
		}
	}
	return out
}

// AllBad reports whether there are findings and all of them are bad.
func AllBad(fs []Finding) bool {
	return len(fs) > 0 && !slices.ContainsFunc(fs, func(r Finding) bool { return !IsBad(r.Status) })
}
