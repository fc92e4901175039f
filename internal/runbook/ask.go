package runbook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Question is a question that a runbook asks a person.
type Question struct {
	Step    string
	Text    string
	Options []string // nil = any text
	Default *string  // used for an empty answer; nil = an answer is required
	Wrong   string   // the previous answer, if it was not one of the options
}

func (w *walk) ask(ctx context.Context, e *Entry, s *Step) error {
	e.Text = w.sight().say(ctx, s.Ask.Question)
	var before Answer
	if _, done, err := w.Journal.ended(e.Step, &before); done && err == nil && !w.past && before.Text == s.Ask.Later &&
		before.Text != "" {
		w.Journal.forget(e.Step)
	}
	out, at, err := effect(w, e.Step, s.Name, func() (Answer, error) { return w.answer(ctx, s, e.Text) })
	if err != nil {
		return err
	}
	e.At, e.Answer = at, &out
	w.later = w.later || out.Text == s.Ask.Later && out.Text != ""
	w.answers[s.Name] = out.Text
	return nil
}

func (w *walk) answer(ctx context.Context, s *Step, question string) (Answer, error) {
	if text, given := w.Answers[s.Name]; given {
		return Answer{text, "--answer"}, nil
	}
	q := Question{Step: s.Name, Text: question, Options: s.Ask.Options, Default: s.Ask.Default}
	for {
		text, err := w.World.Ask(ctx, q)
		switch {
		case errors.Is(err, ErrNoPerson) && q.Default != nil:
			return Answer{*q.Default, "default"}, nil
		case errors.Is(err, ErrNoPerson):
			return Answer{}, stop{Outcome{Verdict: wordIncomplete, Says: fmt.Sprintf("the question %s (%s) has no answer, and %v: use --answer %s=TEXT", s.Name, brief(question), ErrNoPerson, s.Name)}, true}
		case err != nil:
			return Answer{}, err
		}
		text = strings.TrimSpace(text)
		if text == "" && q.Default != nil {
			text = *q.Default
		}
		if answer, ok := option(q.Options, text); ok {
			return Answer{answer, w.World.Who}, nil
		}
		q.Wrong = text
	}
}

// option returns the option that a user typed. The text must be the option itself, or a prefix of exactly one option in
// upper or lower case.
func option(options []string, typed string) (string, bool) {
	if len(options) == 0 || slices.Contains(options, typed) {
		return typed, typed != ""
	}
	var found []string
	for _, o := range options {
		if typed != "" && strings.HasPrefix(strings.ToLower(o), strings.ToLower(typed)) {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}
