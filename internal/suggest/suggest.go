// Package suggest finds the intended name for a mistyped one.
//
//	fmt.Errorf("unknown check %q%s", typed, suggest.DidYouMean(typed, names))
//	// unknown check "bgp-sesion", did you mean bgp-session?
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns a hint ", did you mean X?" for a mistyped name, or "".
func DidYouMean(typed string, names []string) string {
	near := Nearest(typed, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", near)
}

// Nearest returns the likely name for a mistyped name, or "" if there is none. It prefers the only name that ends with
// a dash and the typed text, then the name with the smallest distance, then the name that shares the most words.
func Nearest(typed string, names []string) string {
	whole := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, "-"+typed) })
	if len(whole) == 1 && strings.Contains(typed, "-") {
		return whole[0]
	}
	best, least := "", max(2, len(typed)/3)+1
	for _, name := range names {
		if d := Distance(typed, name); d < least && d < len(name) {
			best, least = name, d
		}
	}
	if best != "" {
		return best
	}
	shared := 2
	for _, name := range names {
		n := 0
		for part := range strings.SplitSeq(typed, "-") {
			if len(part) > 2 && strings.Contains(name, part) {
				n += len(part)
			}
		}
		if n > shared {
			best, shared = name, n
		}
	}
	return best
}

// Distance returns the number of letters that must be inserted, removed or changed to turn a into b. Two swapped
// adjacent letters count as one change (Damerau's distance).
func Distance(a, b string) int {
	var above, before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above, before, row = before, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, before[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
