package probe

import "strings"

// plainLetters mean only themselves to a shell, wherever in a word they stand.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%"

// Quote makes one word of a shell's of any text, in quotes where it needs them: zsh looks for
// a program where a word begins with =. Behind ssh a second shell reads it.
func Quote(text string) string {
	if text != "" && text[0] != '=' && strings.Trim(text, plainLetters) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// UserFlag is the flag of 'calico-probe manifests' that grants rights to a user of the API, with a space before it; ""
// where there is no name to grant to.
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
