package probe

import "strings"

// plainLetters need no quotes in a shell, anywhere in a word.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%"

// Quote turns any text into one word of a shell, with quotes if necessary. Quotes also prevent zsh from expanding a
// word that begins with "=". With ssh, a second shell parses the result.
func Quote(text string) string {
	if text != "" && text[0] != '=' && strings.Trim(text, plainLetters) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// UserFlag returns the flag of 'calico-probe manifests' that grants rights to a user of the API, with a leading
// space. It returns "" without a user name.
func UserFlag(user string) string {
	account, is := strings.CutPrefix(user, "system:serviceaccount:")
	switch {
	case user == "" || user == "system:anonymous":
		return ""
	case is:
		return " --service-account=" + Quote(account)
	}
	return " --user=" + Quote(user)
}
