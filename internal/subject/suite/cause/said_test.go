package cause

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

var update = flag.Bool("update", false, "write what is said in the recorded nights")

// headSaid begins the last section of a night.
const headSaid = "-- said --\n"

// compareSaid compares the words of a night's causes with its section said, or writes that section. Everything before
// it is written by hand and stays as it is.
func compareSaid(t *testing.T, name string, file []byte, want string, causes []probe.Cause) {
	t.Helper()
	got := saidOf(causes)
	if !*update {
		if got != want {
			t.Errorf("said otherwise (if that is right: go test ./internal/subject/suite/cause -run TestRecorded -update): %s",
				firstDifference(got, want))
		}
		return
	}
	before, after, _ := bytes.Cut(file, []byte(headSaid))
	if len(txtar.Parse(after).Files) > 0 {
		t.Fatal("said is not the last section")
	}
	if got != "" {
		got = headSaid + got
	}
	if err := os.WriteFile(name, append(bytes.Clone(before), got...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// saidOf is what people read of causes, a paragraph each: the sentence, the evidence, what speaks against it, and of
// the fix its sentence and what this night fills in. The rest of a fix is in the cause's file, the same every night.
func saidOf(causes []probe.Cause) string {
	var b strings.Builder
	for i, c := range causes {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, strings.TrimSpace(c.ID+" "+c.About))
		line := func(word, text string) {
			fmt.Fprintf(&b, "%s: %s\n", word, strings.ReplaceAll(text, "\n", "\n  "))
		}
		line("says", c.Says)
		clues := func(word string, of []probe.Clue) {
			for _, clue := range of {
				place := strings.TrimSpace(clue.Check + " " + clue.Target)
				if clue.Node != "" {
					place += " on " + clue.Node
				}
				line(word, fmt.Sprintf("[%s] %s: %s", clue.Status, place, clue.Saw))
			}
		}
		clues("for", c.For)
		clues("but", c.Against)
		line("fix", c.Fix.Says)
		same := sameEveryNight(c.ID)
		particular := func(word, text string) {
			if text != "" && !same.MatchString(text) {
				line(word, text)
			}
		}
		particular("touches", c.Fix.Radius)
		for _, block := range c.Fix.Blocks() {
			particular("only if", block.If)
			for _, command := range block.Commands {
				particular("$", command)
			}
		}
	}
	return b.String()
}

// sameEveryNight fits the texts of a cause's fixes in which nothing stands but what every fix may name, such as {node}.
func sameEveryNight(id string) *regexp.Regexp {
	rule := All().Rule(id)
	shared := evidence.Shared().Fixes
	fixes := append(slices.Collect(maps.Values(rule.Fixes)), rule.Fix)
	fixes = slices.AppendSeq(fixes, maps.Values(shared))
	var patterns []string
	add := func(texts ...string) {
		for _, text := range texts {
			given := slices.DeleteFunc(diagnose.Placeholders(text), diagnose.IsCommonArg)
			if text != "" && len(given) == 0 {
				pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(text), ".*")
				patterns = append(patterns, strings.ReplaceAll(pattern, `\.crd\.`, `(?:\.crd)?\.`))
			}
		}
	}
	for _, fix := range fixes {
		add(fix.Radius)
		add(slices.Concat(fix.Manifest, fix.Operator)...)
		for _, c := range fix.OnlyIf {
			add(c.If)
			add(slices.Concat(c.Manifest, c.Operator)...)
		}
	}
	return regexp.MustCompile("^(?:" + strings.Join(patterns, "|") + ")$")
}

// firstDifference is the first line by which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		has := func(of []string) string {
			if i < len(of) {
				return of[i]
			}
			return "nothing more"
		}
		if has(g) != has(w) {
			return fmt.Sprintf("line %d: got\n%s\nwant\n%s", i+1, has(g), has(w))
		}
	}
	return "the same"
}

// TestEveryCauseIsSaid wants a night for each rule in which its cause is named, so that its words are compared.
func TestEveryCauseIsSaid(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, f := range recorded(t) {
		for _, c := range diagnose.Explain(f, All()).Causes {
			named[c.ID] = true
		}
	}
	for _, r := range All().Rules {
		if !named[r.ID] {
			t.Errorf("no night in testdata names %s", r.ID)
		}
	}
}

// TestObstaclesAsToday wants a night recorded by an older probe to have the obstacle that checks read out of the same
// message today: else it pins a cause that no run names any more.
func TestObstaclesAsToday(t *testing.T) {
	t.Parallel()
	for name, f := range recorded(t) {
		for _, r := range f.All {
			message, today := r.Facts.Str(facts.Message), facts.Sandbox{}
			switch r.Facts.Str(facts.Starts) {
			case facts.StartsContainer:
				today = facts.ContainerFailed(message)
			case facts.StartsSandbox, facts.StartsCNI:
				today = facts.SandboxFailed("Failed to create pod sandbox: rpc error: code = Unknown desc = " + message)
			}
			if today.Obstacle != "" && r.Facts.Str(facts.Obstacle) != today.Obstacle {
				t.Errorf("%s: %s lacks obstacle %q: %s", name, r.Check, today.Obstacle, message)
			}
		}
	}
}
