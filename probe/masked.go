package probe

import (
	"regexp"
	"strings"
	"unicode"
)

var colour = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// Masked is a text that others wrote as one line without passwords, tokens and keys. It removes rather
// too much.
func Masked(text string) string {
	masked, _ := WithoutSecrets(text, true)
	return masked
}

// WithoutSecrets is a text that others wrote as one line without secrets, and whether it had one. With
// bare, what only looks like a key is one: not in texts that consist of digests and IDs.
func WithoutSecrets(text string, bare bool) (masked string, had bool) {
	line := oneLine(text)
	masked = withoutSecrets(line)
	if bare {
		masked = withoutBareKeys(masked)
	}
	return Plain(masked), masked != line
}

// oneLine is a text as one line, which begins and ends with no blank.
func oneLine(text string) string { return plainText(strings.Join(strings.Fields(text), " ")) }

// quoteHead and quoteMost bound what is read and shown of a text that others wrote: bytes, characters.
const (
	quoteHead = 64 << 10
	quoteMost = 300
)

// refused is where an answer of admission says why: what follows names each field, the worst first.
var refused = regexp.MustCompile(` is forbidden: | denied the request: `)

// Quoted is a text that others wrote as it may be shown: one masked line, without its middle where it
// is long, since a message begins with what was tried and ends with the reason. A refusal by the API
// server's admission begins with the reason.
func Quoted(text string) string {
	masked := Masked(text[:min(len(text), quoteHead)])
	line := []rune(masked)
	if len(line) <= quoteMost {
		return masked
	}
	begins := func(text []rune, most int) string {
		if len(text) > most {
			return string(text[:most]) + " ..."
		}
		return string(text)
	}
	if at := refused.FindStringIndex(masked); at != nil {
		return begins([]rune(masked[:at[0]]), quoteMost/3) + begins([]rune(masked[at[0]:]), quoteMost*2/3)
	}
	return begins(line, quoteMost/3) + " " + string(line[len(line)-quoteMost*2/3:])
}

// plainText is a text without colours and whatever else is not printed, which could part a name.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, colour.ReplaceAllString(text, ""))
}
