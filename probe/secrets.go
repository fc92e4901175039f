package probe

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// leftOut is the text that replaces a secret.
const leftOut = "(left out)"

// A secretForm is one form of secrets in foreign text.
type secretForm struct {
	id   string
	near []string // a text with such a secret contains one of these words in lower case; nil = any text
	hide func(line string) string
}

// secretForms lists the forms of secrets in the order in which they are removed. The probe removes all forms from
// quoted text. A bundle removes all forms from every text, except for bare keys.
var secretForms = []secretForm{
	{"private-key", []string{"private key"}, replaces(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*`, leftOut)},
	// A quote counts as part of a password unless the next character shows that the quote ends a quoted text.
	{"url-user", []string{"://"}, replaces(`://(?:[^\s"']*|[^\s"'/]*:(?:[^\s"']|["']+[^\s"',:;)}\]])*)@`, "://"+leftOut+"@")},
	{"url-query", []string{"://"}, withoutQueries},
	// A header may have several parts, so the rest of the line is also removed.
	{"header", []string{"authorization", "cookie"}, replaces(`(?i)(authorization\\*["']?\s*(?:[:=]+>?|->)\s*|`+
		`\b(?:set-)?cookie\\*["']?\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|.+)`, "${1}"+leftOut)},
	{"jwt", []string{"eyj"}, replaces(`eyJ[\w-]{8,}\.[\w-]+\.?[\w-]*`, leftOut)},
	{"bearer", []string{"bearer"}, withoutBearers},
	{"dsn", []string{"@"}, withoutDSNs},
	{"bootstrap", []string{"."}, replaces(`(^|[^\w.-])[a-z0-9]{6}\.[a-z0-9]{16}\b`, "${1}"+leftOut)},
	{"docker-auth", []string{"auth"}, replaces(`(\\*"auth\\*"\s*:\s*\\*")[A-Za-z0-9+/=_-]{8,}`, "${1}"+leftOut)},
	{"curl-user", []string{"-u", "--user"}, replaces(`((?:^|\s)(?:-u|--user)[= ])[^\s:]*:\S+`, "${1}"+leftOut)},
	{"prefixed", []string{"gh", "glpat-", "xox", "dckr_pat_", "hvs.", "akia", "asia"}, replaces(
		`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|dckr_pat_|hvs\.|AKIA|ASIA)[\w.-]{12,}`, leftOut)},
	{"value-first", []string{"value"}, withoutValuesFirst},
	{"named", []string{"pass", "secret", "token", "credential", "key", "pwd", "psk", "sig", "cookie"}, withoutNamed},
}

func replaces(form, with string) func(string) string {
	find := regexp.MustCompile(form)
	return func(line string) string { return find.ReplaceAllString(line, with) }
}

// withoutSecrets returns a line without the known forms of secrets.
func withoutSecrets(line string) string {
	lower := strings.ToLower(line)
	for _, f := range secretForms {
		if f.near == nil || slices.ContainsFunc(f.near, func(near string) bool { return strings.Contains(lower, near) }) {
			line = f.hide(line)
		}
	}
	return line
}

// Origin returns the parts of a URL that may leave a node: the scheme, host and port. In some clusters, the rest
// contains a password or token. If the text has no host, it returns "".
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

var (
	urlQuery = regexp.MustCompile(`(://[^\s"'\\?#<>]*)([?#])([^\s"'\\<>]*[^\s"'\\<>:;,.)\]}])`)
	// plainQuery matches a query from Kubernetes clients that contains no user-defined value.
	plainQuery = regexp.MustCompile(`^(?:(?:limit|resourceVersion|timeout|timeoutSeconds|watch|allowWatchBookmarks)=` +
		`(?:\d+(?:ms|s|m|h)?|true|false)(?:&|$))+$`)
)

// withoutQueries removes the query and fragment from each URL.
func withoutQueries(line string) string {
	return urlQuery.ReplaceAllStringFunc(line, func(found string) string {
		m := urlQuery.FindStringSubmatch(found)
		if plainQuery.MatchString(m[3]) || m[2] == "#" && !strings.Contains(m[3], "=") {
			return found
		}
		return m[1] + m[2] + leftOut
	})
}

var bearer = regexp.MustCompile(`(?i)(\bbearer\s+)(\S+)`)

func withoutBearers(line string) string {
	return bearer.ReplaceAllStringFunc(line, func(found string) string {
		m := bearer.FindStringSubmatch(found)
		if word := strings.ToLower(m[2]); strings.HasPrefix(word, "token") || strings.HasPrefix(word, "auth") {
			return found // "bearer token": the value after it decides
		}
		return m[1] + leftOut
	})
}

// dsn matches the user and password before a host without a scheme: user:password@tcp(db:3306)/orders.
var dsn = regexp.MustCompile(`((?:^|[\s"'=(,\[<])[\w.+-]*:)[^\s"']+@(sha\d+:)?`)

func withoutDSNs(line string) string {
	return dsn.ReplaceAllStringFunc(line, func(found string) string {
		m := dsn.FindStringSubmatch(found)
		if m[2] != "" || strings.HasPrefix(found[len(m[1]):], "//") {
			return found // an image with its digest, or a URL
		}
		return m[1] + leftOut + "@"
	})
}

// Names of secrets. A word in longNames may continue ("token_ttl"). A word in shortNames must not continue.
const (
	longNames = `password|passwd|passphrase|passcode|secret|token|credential|cookie|key[_-]?data|` +
		`(?:api|access|account|private|client|shared|signing|encryption)[_-]?key`
	shortNames = `pass|pwd|psk|sig|signature`
)

var (
	// namedHead matches a name and the separator before the value. In Kubernetes variables and nested objects, the
	// value is in a separate field. In YAML, there may be a tag, and the value may be on the next line.
	namedHead = regexp.MustCompile(`(?i)([\w./-]*(?:(?:` + longNames + `)[\w-]*|(?:` + shortNames + `)\b))` +
		`((?:\\*["']?\s*[,:=]?\s*\\*["']?(?:value|plain|plaintext|text|data)\\*["']?\s*[:=]\s*|` +
		`\\*["']?\s*(?:[:=]+>?|->)\s*)\\*(?:!!(?:str|binary|int|float)\s+)?(?:[|>][+-]?\s+)?|\s+)`)
	// valueFirst matches a variable whose value comes before its name, in JSON or YAML.
	valueFirst = regexp.MustCompile(`(?i)(\bvalue\\*["']?\s*[:=]\s*)(\\"(?:[^"\\]|\\\\.|\\[^"\\])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s,"'{}\[\]]|,[^\s"'])+)` +
		`(\s*,?\s*\\*["']?name\\*["']?\s*[:=]\s*\\*["']?)([\w.-]+)`)
	// nextName matches the name of the next secret if the value of the previous secret is empty.
	nextName  = regexp.MustCompile(`(?i)^[\w.-]*(?:(?:` + longNames + `)[\w-]*|` + shortNames + `)[:=](?:\s|$)`)
	ownName   = regexp.MustCompile(`(?i)(?:` + longNames + `)|(?:` + shortNames + `)$`)
	longName  = regexp.MustCompile(`(?i)` + longNames)
	otherName = regexp.MustCompile(`(?i)(?:by|com|sur|tres|under|over)pass$|syncookie`)
)

// NamesSecret reports whether a field, variable or key with this name has a secret value.
func NamesSecret(name string) bool { return ownName.MatchString(name) && !otherName.MatchString(name) }

// withoutValuesFirst removes the values of variables if the name comes after the value.
func withoutValuesFirst(line string) string {
	return valueFirst.ReplaceAllStringFunc(line, func(found string) string {
		m := valueFirst.FindStringSubmatch(found)
		if !NamesSecret(m[4]) || isSwitch(m[2]) {
			return found
		}
		return m[1] + leftOut + m[3] + m[4]
	})
}

// maxJudged is the maximum number of bytes of a value that are examined to decide whether it is a secret. Without
// this limit, an endless value would be read again for each name that it contains.
const maxJudged = 300

// withoutNamed removes the text that follows the name of a secret. It examines each name separately, because the text
// after a name might be the next name.
func withoutNamed(line string) string {
	var b strings.Builder
	before := byte(' ')
	for {
		at := namedHead.FindStringSubmatchIndex(line)
		if at == nil {
			b.WriteString(line)
			return b.String()
		}
		if at[2] > 0 {
			before = line[at[2]-1]
		}
		name, between, value := line[at[2]:at[3]], line[at[4]:at[5]], line[at[5]:]
		head := value[:min(len(value), maxJudged)]
		end := at[3]
		if head != "" && !strings.HasPrefix(head, leftOut) && !nextName.MatchString(head) && !isResource(name+between+head) &&
			!isPath(name, between, before) && isSecret(name, between, head[:endOfValue(head)]) {
			b.WriteString(line[:at[5]] + leftOut)
			end = at[5] + endOfValue(value)
		} else {
			b.WriteString(line[:end])
		}
		before, line = line[end-1], line[end:]
	}
}

// endOfValue returns the end of a value. The value ends after its quotes or brackets, or before the next blank.
func endOfValue(text string) int {
	after := func(start int, end string) int {
		if i := strings.Index(text[start:], end); i >= 0 {
			return start + i + len(end)
		}
		return len(text)
	}
	switch {
	case text[0] == '"' || text[0] == '\'':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case text[0]:
				return i + 1
			}
		}
		return len(text)
	case goList.MatchString(text):
		return after(2, "}")
	case text[0] == '[' || text[0] == '{':
		return endOfBrackets(text)
	}
	if i := strings.IndexByte(text, ' '); i > 0 {
		return i
	}
	return len(text)
}

// endOfBrackets returns the end of an array or object. It ends after the closing bracket that is outside quotes.
func endOfBrackets(text string) int {
	depth, quoted := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted != 0 && c == '\\':
			i++
		case c == quoted:
			quoted = 0
		case quoted != 0:
		case c == '"':
			quoted = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// goList matches a header's values in the form in which Go prints them.
var goList = regexp.MustCompile(`^\[\]\w*\{`)

// isResource reports whether a text begins with a Secret's name in the form in which Kubernetes logs it.
// The name is not confidential.
var isResource = regexp.MustCompile(`^secrets? "[a-z0-9.-]+" (?:not found|is forbidden)`).MatchString

// isPath reports whether a name is a file path or URL path, and the text after it describes that path: "open
// /run/token: no such file". A JSON key may contain a slash.
func isPath(name, between string, before byte) bool {
	quoted := before == '"' || before == '\''
	return strings.Contains(name, "/") && (name[0] == '/' || !quoted) &&
		strings.HasPrefix(strings.TrimLeft(between, `\"' `), ":")
}

// isSwitch reports whether a value is a boolean, as in automountServiceAccountToken: false.
var isSwitch = regexp.MustCompile(`^\\*["']?(?:true|false)\\*["']?[,;}\]]*$`).MatchString

// isSecret reports whether a value belongs to the name before it. It returns false if the value is
// just the next word of a sentence.
func isSecret(name, between, value string) bool {
	lower := strings.ToLower(name)
	if otherName.MatchString(name) || isSwitch(value) {
		return false
	}
	if strings.ContainsAny(between, ":=>") {
		switch {
		case strings.HasSuffix(lower, "signature"):
			return strings.Contains(between, "=") && len(value) >= minSignature // "invalid signature: crypto/rsa: ..."
		case strings.HasSuffix(lower, "sig"):
			return len(value) >= minSignature // "killed, sig=11"
		}
		return true
	}
	variable := strings.Contains(name, "_") || strings.HasPrefix(name, "-")
	if !longName.MatchString(name) { // "pass 2 of 3"
		return variable || strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'")
	}
	return variable || strings.ToUpper(name) == name || strings.ContainsAny(value, "0123456789!$%^&*+=\"'")
}

// minSignature is the minimum length of a signature in bytes. The shortest signatures in use have 16 bytes.
const minSignature = 10
