package causefile

import (
	"strconv"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// optionals is a cause with a sentence with optional parts, and a clue with a condition.
const optionals = `find:
  down: bgp-session bad
  since: down age_s?
  listed: down pods??
cases:
- if: down
  says: "down[ for {since.age_s:lasting}][, by {since.age_s:lasting} of {listed.pods}] [-]ready"
  for: [proof down if since and not listed, hint down if not since or listed]`

// TestOptional checks that a part in brackets appears only with its values, and a clue only if its condition holds.
func TestOptional(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result probe.Result
		want   string
	}{
		{result("x", 1), "down [-]ready 1"},
		{result("age_s", 60.0), "down for 60s [-]ready 3"},
		{result("age_s", 60.0).With("pods", []any{}), "down for 60s [-]ready 3"},
		{result("age_s", 60.0).With("pods", []any{"a", "b"}), "down for 60s, by 60s of a, b [-]ready 1"},
		{result("pods", []any{"a"}), "down [-]ready 1"},
	} {
		cases := match(t, optionals, Shared{}, c.result)
		if len(cases) != 1 || len(cases[0].For) != 1 {
			t.Fatalf("%v: %+v", c.result.Facts, cases)
		}
		if got := cases[0].Says + " " + strconv.Itoa(cases[0].For[0].Weight); got != c.want {
			t.Errorf("%v: %q, want %q", c.result.Facts, got, c.want)
		}
	}
}

// TestOptionalMistakes checks that an unknown selection is named.
func TestOptionalMistakes(t *testing.T) {
	t.Parallel()
	for right, wrong := range map[string]string{"if since and": "if nothing and", "[ for {since.": "[ for {nothing."} {
		_, err := readCause("a-cause", file(strings.Replace(optionals, right, wrong, 1)), Shared{}, nil)
		if err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestMatch expects the text that a pattern matches, or its first group, and an error for an invalid pattern.
func TestMatch(t *testing.T) {
	t.Parallel()
	const text = "find: {down: bgp-session bad}\ncases:\n- if: down\n  for: proof down\n" +
		"  says: '{down.taint:match ^[^=:]+} {down.says:match Iface: (\\S{1,5})\\)} {down.says:match nothing}.'"
	got := match(t, text, Shared{}, result("taint", []any{"key=value:NoSchedule"}).With("says", "(Iface: cali1)"))
	if want := "key cali1 ."; len(got) != 1 || got[0].Says != want {
		t.Errorf("%+v, want %s", got, want)
	}
	if _, err := readCause("a-cause", file(strings.Replace(text, "[^=:]", "[^=:", 1)), Shared{}, nil); err == nil {
		t.Error("a pattern that is none was taken")
	}
}
