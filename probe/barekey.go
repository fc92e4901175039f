package probe

import (
	"regexp"
	"strings"
)

// The minimum length of a word that might be a key: 24 bytes in base64, 16 in hexadecimal. Padding shows that a
// word is base64, so 15 bytes are enough for a padded key.
const (
	minKey    = 32
	minPadded = 20
)

// withoutBareKeys removes long words that look like a key because of their letters alone.
func withoutBareKeys(line string) string {
	var b strings.Builder
	for at := 0; at < len(line); {
		end := at
		for end < len(line) && inKey(line[end]) {
			end++
		}
		switch pad := padding(line, at, end); {
		case end == at:
			b.WriteByte(line[at])
			end++
		case end-at >= minKey && isMixed(line[at:end], 38), pad > 0 && end-at >= minPadded && isMixed(line[at:end], 30):
			b.WriteString(leftOut)
			end += pad
		case end-at >= minKey:
			writeWithoutIDs(&b, line, at, end)
		default:
			b.WriteString(line[at:end])
		}
		at = end
	}
	return b.String()
}

// inKey reports whether a byte occurs in a base64 alphabet.
func inKey(c byte) bool { return isDigit(c) || isLetter(c) || strings.IndexByte("+/_-", c) >= 0 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// padding returns the number of padding characters that extend a base64 word to a multiple of four. A "=" before a
// quoted value does not count as padding.
func padding(line string, at, end int) int {
	pad := 0
	for end > at && pad < 3 && end+pad < len(line) && line[end+pad] == '=' {
		pad++
	}
	before, after := byte(' '), byte(' ')
	if at > 0 {
		before = line[at-1]
	}
	if end+pad < len(line) {
		after = line[end+pad]
	}
	quoted := (after == '"' || after == '\'') && before != after && pad == 1
	if pad > 2 || (end-at+pad)%4 != 0 || quoted || inKey(after) {
		return 0
	}
	return pad
}

// writeWithoutIDs writes a long word, but omits its purely alphanumeric parts, such as a key in hexadecimal. It
// keeps container IDs and image digests.
func writeWithoutIDs(b *strings.Builder, line string, at, end int) {
	start := at
	for _, part := range longID.FindAllStringIndex(line[at:end], -1) {
		from, to := start+part[0], start+part[1]
		id := line[from:to]
		if strings.ContainsAny(id, "0123456789") && (!containerID.MatchString(id) ||
			!beforeID.MatchString(line[max(0, from-40):from])) {
			b.WriteString(line[at:from] + leftOut)
			at = to
		}
	}
	b.WriteString(line[at:end])
}

var (
	longID      = regexp.MustCompile(`[A-Za-z0-9]{32,}`)
	containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// beforeID matches what precedes a container ID, a sandbox ID or an image digest.
	beforeID = regexp.MustCompile(`(?i)(?:sha256:|/|(?:containerd|docker|crio|libpod)-|network\.|` +
		`(?:container|sandbox|\b(?:pod|exec|infra|image|layer|task|shim|digest|id))[\w -]{0,16}\\*["']?[:=]?\s?\\*["']?)$`)
)

// isMixed reports whether a word looks random. Such a word has both cases, and switches between lower-case letters,
// capitals, digits and symbols more often than a name or path. In a random key, 64 of 100 characters follow a
// character of another kind.
func isMixed(word string, least int) bool {
	var of [4]int
	changes, last := 0, -1
	for i := range len(word) {
		kind := 3
		switch c := word[i]; {
		case isDigit(c):
			kind = 2
		case 'a' <= c && c <= 'z':
			kind = 0
		case 'A' <= c && c <= 'Z':
			kind = 1
		}
		if of[kind]++; last >= 0 && kind != last {
			changes++
		}
		last = kind
	}
	some := len(word) / 8
	return of[0] >= some && of[1] >= some && changes*100 >= least*(len(word)-1)
}
