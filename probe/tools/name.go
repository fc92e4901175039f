package tools

import "strings"

// isName reports whether a text can be a host name.
func isName(text string) bool { return isDomainName(text) && !strings.ContainsAny(text, " /:@") }

// isDomainName reports whether a text is a valid DNS name (RFC 1035, 2.3.4 and 5.1). It consists of labels of 1 to
// 63 bytes, in which \. and \046 count as one byte. The length limit is that of the DNS library, which counts one
// byte for each label but none for the root.
func isDomainName(text string) bool {
	const maxLabel, maxName = 63, 256
	label, name := 0, 0
	for rest := text; rest != ""; {
		if rest[0] != '.' {
			n := escaped(rest)
			if n > len(rest) {
				return false
			}
			label, rest = label+1, rest[n:]
			continue
		}
		if rest = rest[1:]; label == 0 || label > maxLabel {
			return text == "."
		}
		label, name = 0, name+1+label
	}
	if label > 0 { // no trailing dot
		name += 1 + label
	}
	return name > 0 && label <= maxLabel && name <= maxName
}

// escaped returns the number of bytes of text that encode the first byte of a name.
func escaped(text string) int {
	switch {
	case text[0] != '\\':
		return 1
	case len(text) > 3 && strings.Trim(text[1:4], "0123456789") == "":
		return len(`\046`)
	}
	return len(`\.`)
}
