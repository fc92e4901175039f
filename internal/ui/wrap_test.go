package ui

import (
	"strings"
	"testing"
)

// TestPaged requires that only commands are wider than the terminal, and that only spaces change.
func TestPaged(t *testing.T) {
	t.Parallel()
	text := "swap-on: the node swaps\n\n" + strings.Repeat("a kubelet that swaps is slow ", 8) + "\n\nok          " +
		strings.Repeat("no swap ", 12) + "\n     kubectl --context a get node b -o jsonpath='{.status.nodeInfo.machineID}'\n"
	got := paged(text, 40)
	for line := range strings.Lines(got) {
		if len(strings.TrimSuffix(line, "\n")) > 40 && !strings.Contains(line, "kubectl --context a get node b -o jsonpath=") {
			t.Errorf("too wide: %q", line)
		}
	}
	if a, b := strings.Fields(got), strings.Fields(text); strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("another text:\n%s", got)
	}
	if !strings.Contains(got, "\nok          no swap no swap no swap no\n            swap") {
		t.Errorf("the answer's text is not below itself:\n%s", got)
	}
	if got := paged(text, 0); got != text {
		t.Errorf("without a terminal:\n%s", got)
	}
	for text, want := range map[string]string{
		"a head that is far longer than the terminal is  and what stands beside it, which goes on": "a head that is far longer than the\n  terminal is  and what stands beside it,\n  which goes on",
		"größe     größer grün über ältere Öfen oö":                                                "größe     größer grün über ältere Öfen oö",
		"ö         größer grün über ältere Öfen oöö":                                               "ö         größer grün über ältere Öfen\n          oöö",
		"\x1b[31mred\x1b[0m       is no column and this is long":                                   "\x1b[31mred\x1b[0m       is no column and this is long",
	} {
		if got := paged(text, 41); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
