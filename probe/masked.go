package probe

import (
	"regexp"
	"strings"
	"unicode"
)

// leftOut stands where a secret stood.
const leftOut = "(left out)"

// What a text may hold and nobody is to read. The value of a header may have several parts, so the
// rest of the line goes with it.
var (
	colour      = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
	jwt         = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+\.?[\w-]*`)
	privateKey  = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*`)
	userInURL   = regexp.MustCompile(`://[^\s"']*@`)
	headerValue = regexp.MustCompile(`(?i)(authorization\\*["']?\s*[:=]+>?\s*)(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|.+)`)
	bearer      = regexp.MustCompile(`(?i)(\bbearer\s+)(\S+)`)
	longWord    = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}={0,2}`)
	longID      = regexp.MustCompile(`[A-Za-z0-9]{32,}={0,2}`)
)

// nameOfSecret is what the name of a secret has in it.
const nameOfSecret = `(?:password|passwd|passphrase|secret|token|credential|key[_-]?data|(?:api|access|private|client|shared|signing|encryption)[_-]?key)`

// namedSecret is a name, what parts it from its value, and the value: in quotes, in brackets, or to
// the next blank.
var namedSecret = regexp.MustCompile(`(?i)([\w./-]*` + nameOfSecret + `[\w-]*)` +
	`(\\*["']?\s*[:=]+>?\s*\\*|\s+)` +
	`("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\[\]\w*\{[^}]*\}?|\[[^\]]*\]?|\S+)`)

// nextName is the name of another secret, where the value of the one before it is empty.
var nextName = regexp.MustCompile(`(?i)^[\w.-]*` + nameOfSecret + `[\w-]*[:=]$`)

// Masked is a text that others wrote as one line without passwords, tokens and keys. It leaves out
// rather too much.
func Masked(text string) string {
	line := plainText(strings.Join(strings.Fields(text), " "))
	line = privateKey.ReplaceAllString(line, leftOut)
	line = userInURL.ReplaceAllString(line, "://"+leftOut+"@")
	line = headerValue.ReplaceAllString(line, "${1}"+leftOut)
	line = jwt.ReplaceAllString(line, leftOut)
	line = bearer.ReplaceAllStringFunc(line, func(found string) string {
		m := bearer.FindStringSubmatch(found)
		if word := strings.ToLower(m[2]); strings.HasPrefix(word, "token") || strings.HasPrefix(word, "auth") {
			return found // "bearer token" is judged by what follows it
		}
		return m[1] + leftOut
	})
	line = withoutNamed(line)
	for _, long := range []*regexp.Regexp{longID, longWord} {
		line = long.ReplaceAllStringFunc(line, func(word string) string {
			if random(word) {
				return leftOut
			}
			return word
		})
	}
	return Plain(line)
}

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

// withoutNamed leaves out what follows the name of a secret. Each name is looked at by itself: what
// follows the first may be the name of the next.
func withoutNamed(line string) string {
	var b strings.Builder
	for {
		at := namedSecret.FindStringSubmatchIndex(line)
		if at == nil {
			b.WriteString(line)
			return b.String()
		}
		name, between, value := line[at[2]:at[3]], line[at[4]:at[5]], line[at[6]:at[7]]
		if !nextName.MatchString(value) && !isResource(name+between+line[at[6]:]) && isSecret(name, between, value) {
			b.WriteString(line[:at[6]] + leftOut)
			line = line[at[7]:]
			continue
		}
		b.WriteString(line[:at[3]])
		line = line[at[3]:]
	}
}

// isResource tells whether a text begins with the name of a Secret as Kubernetes tells it: that is no secret.
var isResource = regexp.MustCompile(`^secrets? "[a-z0-9.-]+" (?:not found|is forbidden)`).MatchString

// isSecret tells whether a value belongs to the name before it, or is the next word of a sentence.
func isSecret(name, between, value string) bool {
	if strings.ContainsAny(between, ":=") {
		// "open /run/token: no such file" is about a file.
		return !strings.Contains(name, "/") || !strings.HasPrefix(strings.TrimSpace(between), ":")
	}
	variable := strings.Contains(name, "_") || strings.HasPrefix(name, "--") || strings.ToUpper(name) == name
	return variable || strings.ContainsAny(value, "0123456789!$%^&*+=\"'")
}

// random tells whether a long word is base64 or hexadecimal, and no name or path: those are in
// small letters or have few digits.
func random(word string) bool {
	digits := len(word) - len(strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, word))
	mixed := strings.ToLower(word) != word && strings.ToUpper(word) != word
	switch {
	case strings.Contains(word, "/"):
		return mixed && digits > 2
	case strings.ContainsAny(word, "_-"):
		return mixed && digits > 0
	}
	return digits > 0
}
