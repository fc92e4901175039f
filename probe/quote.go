package probe

import "strings"

// plainLetters are the characters that never need quotes in a shell word.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%"

// Quote turns any text into one shell word and adds quotes if necessary. Quotes also prevent zsh from expanding a
// word that starts with "=". With ssh, a second shell parses the result.
func Quote(text string) string {
	if text != "" && text[0] != '=' && strings.Trim(text, plainLetters) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// UserFlag returns the flag of 'calico-probe manifests' that grants rights to an API user, with a leading
// space. Without a user name, it returns "".
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
