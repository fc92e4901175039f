package probe

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\x1b[2Jb\tc\nd\r\u009b\x7fé": "a?[2Jb\tc\nd??é",
		"raw \x9b\xff":                 "raw \ufffd\ufffd", // a terminal may interpret these as 8-bit control characters
		"\u202egnp.exe\u2066\u200b":    "?gnp.exe??",
		"":                             "",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSay checks that one message is always one line.
func TestSay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	(&Job{Out: &out}).Say("%s is up", "eth0\x1b]0;x\a\nforged")
	if got := out.String(); got != "eth0?]0;x? forged is up\n" {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"short", 5, "short"}, {"longer", 5, "lo..."}, {"ééé", 5, "é..."}, {"aééé", 5, "a..."}, {"", 5, ""}} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
