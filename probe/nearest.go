package probe

import (
	"fmt"
	"strings"
)

// DidYouMean is a hint ", did you mean X?" for a mistyped name, or "".
func DidYouMean(typed string, names []string) string {
	near := Nearest(typed, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", near)
}

// Nearest is the name that was probably meant by a mistyped one, "" = none of them: the one
// that takes the fewest letters to change, two that changed places counting as one; or else
// the one that has the most of its words.
func Nearest(typed string, names []string) string {
	best, least := "", max(2, len(typed)/3)+1
	for _, name := range names {
		if d := distance(typed, name); d < least && d < len(name) {
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

// distance is how many letters have to be put in, taken out or changed to make b of a, two
// that changed places counting as one (Damerau's, of letters side by side).
func distance(a, b string) int {
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
