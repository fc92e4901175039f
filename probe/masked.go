package probe

import (
	"regexp"
	"strings"
	"unicode"
)

var colour = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// Masked returns foreign text as one line, without passwords, tokens and keys. If it is unsure, it removes the text.
func Masked(text string) string {
	masked, _ := WithoutSecrets(text, true)
	return masked
}

// WithoutSecrets returns foreign text as one line without secrets, and reports whether it contained a secret. If bare
// is set, it also removes words that merely look like a key. Do not set bare for texts that consist of digests and IDs.
func WithoutSecrets(text string, bare bool) (masked string, had bool) {
	line := oneLine(text)
	masked = withoutSecrets(line)
	if bare {
		masked = withoutBareKeys(masked)
	}
	return Plain(masked), masked != line
}

// oneLine returns a text as one line, with blanks trimmed.
func oneLine(text string) string { return plainText(strings.Join(strings.Fields(text), " ")) }

// quoteHead is the maximum number of bytes of foreign text to read. maxQuote is the maximum number
// of characters to show.
const (
	quoteHead = 64 << 10
	maxQuote  = 300
)

// refused matches the beginning of the reason in an admission error. The fields come after it, with the worst first.
var refused = regexp.MustCompile(` is forbidden: | denied the request: `)

// Quoted returns foreign text as one masked line that is safe to show. If the text is too long, Quoted removes its
// middle. A message begins with the attempted action and ends with the reason. In contrast, an admission error from
// the API server begins with the reason.
func Quoted(text string) string {
	masked := Masked(text[:min(len(text), quoteHead)])
	line := []rune(masked)
	if len(line) <= maxQuote {
		return masked
	}
	begins := func(text []rune, most int) string {
		if len(text) > most {
			return string(text[:most]) + " ..."
		}
		return string(text)
	}
	if at := refused.FindStringIndex(masked); at != nil {
		return begins([]rune(masked[:at[0]]), maxQuote/3) + begins([]rune(masked[at[0]:]), maxQuote*2/3)
	}
	return begins(line, maxQuote/3) + " " + string(line[len(line)-maxQuote*2/3:])
}

// plainText returns a text without colours and other non-printing characters, which could split a name.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, colour.ReplaceAllString(text, ""))
}
