package causefile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// scope is the state of a match: all findings, and the evaluated selections by name.
type scope struct {
	diagnose.Findings
	found map[string][]diagnose.Finding
}

// fields are the names of a finding's fields other than its facts.
var fields = []string{"target", "saw", "from", "way", "on", "status", "check", "firstword", "lastword", "family"}

// valueOf returns a field of a finding by its name, or one of its facts.
func valueOf(r diagnose.Finding, key string) (any, bool) {
	switch key {
	case "target":
		return r.Target, true
	case "saw":
		return r.Saw, true
	case "from":
		return r.From, true
	case "way":
		return r.Method, true
	case "on":
		return r.Node, true
	case "status":
		return string(r.Status), true
	case "check":
		return r.Check, true
	case "firstword": // the target's first word
		first, _, _ := strings.Cut(r.Target, " ")
		return first, true
	case "lastword":
		return diagnose.LastWord(r.Target), true
	case "family":
		return float64(diagnose.FamilyOf(r)), true
	}
	v, there := r.Facts[probe.Fact(key)]
	return v, there
}

func numberOf(r diagnose.Finding, key string) (float64, bool) {
	if n, ok := r.Facts.Num(probe.Fact(key)); ok {
		return n, true
	}
	v, _ := valueOf(r, key)
	if list := listOf(v); list != nil {
		return float64(len(list)), true
	}
	n, ok := v.(float64)
	return n, ok
}

// empty reports whether a value is an empty text or list. Checks also send empty values.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case []string:
		return len(v) == 0
	}
	return fmt.Sprint(v) == ""
}

// equal compares a value with a text: numbers as numbers, booleans by name.
func equal(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case bool:
		return strconv.FormatBool(v) == text
	}
	have, ok := probe.Facts{"n": v}.Num("n")
	want, err := strconv.ParseFloat(text, 64)
	return ok && err == nil && have == want
}

// contains reports whether a list or a text contains the given text.
func contains(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any: // a list of texts or ports
		return slices.ContainsFunc(v, func(one any) bool { return equal(one, text) })
	case []string:
		return slices.Contains(v, text)
	}
	return false
}

func unquoted(text string) string { return strings.ReplaceAll(text, "'", "") }

// firstValue returns the first value that is not empty. keys has the keys, separated by bars.
func firstValue(r diagnose.Finding, keys string) any {
	for key := range strings.SplitSeq(keys, "|") {
		if v, _ := valueOf(r, key); !empty(v) {
			return v
		}
	}
	return nil
}

// plainValue formats a value for a sentence: a number without a fraction, a list with commas.
func plainValue(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case []any, []string:
		return strings.Join(listOf(v), ", ")
	}
	return fmt.Sprintf("%.0f", number(v))
}

func number(v any) float64 {
	n, _ := probe.Facts{"n": v}.Num("n")
	return n
}

func listOf(v any) []string {
	return diagnose.ListOf(diagnose.Finding{Result: probe.Result{Facts: probe.Facts{"l": v}}}, "l")
}
