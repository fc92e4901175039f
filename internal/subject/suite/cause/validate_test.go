package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// validate says what is wrong with a list of rules, "" when nothing is.
func validate(rules []*diagnose.Rule) string {
	seen := map[string]*diagnose.Rule{}
	for _, r := range rules {
		switch {
		case r.ID == "" || seen[r.ID] != nil || strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return fmt.Sprintf("rule %q: an ID is kebab-case and there once", r.ID)
		case r.Title == "" || r.Doc == "" || r.Match == nil || r.Layer == 0:
			return fmt.Sprintf("rule %s lacks a title, a doc, a layer or a match", r.ID)
		case r.Fix.Says == "" || r.Fix.Radius == "":
			return fmt.Sprintf("rule %s lacks a fix, or what it touches", r.ID)
		case strings.Contains(r.Doc, "\n\t"):
			return fmt.Sprintf("rule %s has a line break in the middle of a sentence", r.ID)
		}
		seen[r.ID] = r
	}
	for _, r := range rules {
		for _, id := range r.Explains {
			switch other := seen[id]; {
			case other == nil:
				return fmt.Sprintf("rule %s explains %s, which there is not", r.ID, id)
			case !r.MayExplain(other):
				return fmt.Sprintf("rule %s explains %s, which lies in an earlier layer", r.ID, id)
			}
		}
		if reaches(rules, r.ID, r.ID, map[string]bool{}) {
			return fmt.Sprintf("rule %s explains itself through others", r.ID)
		}
	}
	return ""
}

func reaches(rules []*diagnose.Rule, from, to string, been map[string]bool) bool {
	for _, r := range rules {
		if r.ID != from || been[from] {
			continue
		}
		been[from] = true
		for _, next := range r.Explains {
			if next == to || reaches(rules, next, to, been) {
				return true
			}
		}
	}
	return false
}
