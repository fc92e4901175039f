package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// consent records whether the user agrees to probes on many nodes.
type consent struct {
	yes    bool // --yes
	agreed int  // the highest number of nodes that a person confirmed: a loop asks once
}

// consenting adds the flag that gives consent in advance.
func (a *app) consenting(f *pflag.FlagSet) {
	f.BoolVar(&a.many.yes, "yes", false,
		fmt.Sprintf("place probes on more than %d nodes without asking", examine.MaxWithoutConsent))
}

// asker asks a person a question and returns the answer.
type asker func(ctx context.Context, question string) (string, error)

// agreement returns the function that asks for consent before probes are placed on more than examine.MaxWithoutConsent
// nodes. The question shows the cluster and the number of nodes, because at night people easily use the wrong context.
// If ask is nil, there is no person to ask, and only --yes gives consent.
func (a *app) agreement(ask asker) func(context.Context, int) error {
	return func(ctx context.Context, nodes int) error {
		if a.many.yes || nodes <= a.many.agreed {
			return nil
		}
		at, err := a.chosen()
		if err != nil {
			return err
		}
		switch {
		case ask == nil:
			return ui.BadUsage("this would place probes on %d nodes of %s: add --yes to allow this", nodes, at)
		case !a.atTerminal():
			return ui.BadUsage("this would place probes on %d nodes of %s, but stdin is not a terminal to confirm on: add --yes",
				nodes, at)
		}
		text, err := ask(ctx, fmt.Sprintf("place a probe, which can read the whole node, on %d nodes of %s? Type yes: ",
			nodes, at))
		if err != nil {
			return err
		}
		if text != "yes" {
			return ui.DeclinedError("no probe was placed: the answer was not \"yes\"")
		}
		a.many.agreed = nodes
		return nil
	}
}

// typed asks a question on the terminal and returns the line that a person types. It ignores input typed before the
// question. If a signal arrives while it waits, it prints the text in stopped.
func (a *app) typed(ctx context.Context, question, stopped string) (string, error) {
	ui.DropTyped(a.In)
	if _, err := io.WriteString(a.ErrOut, question); err != nil {
		return "", err
	}
	const longest = 256 // maximum bytes of an answer
	text := ""
	typed := probe.Async(func() error { // ends with the program: a read from a terminal cannot be canceled
		text, _ = bufio.NewReader(io.LimitReader(a.In, longest)).ReadString('\n') // Ctrl-D does not give consent
		return nil
	})
	endLine := func() { _, _ = io.WriteString(a.ErrOut, "\n") } // start the next message on a new line
	defer a.interrupts.Stopping(stopped)()
	select {
	case err := <-typed:
		if !strings.HasSuffix(text, "\n") {
			endLine()
		}
		return strings.TrimSpace(text), err
	case <-ctx.Done():
		endLine()
		return "", context.Cause(ctx)
	}
}

// unattended returns the client for a program without a user. It places probes on few nodes only.
func (a *app) unattended() (*examine.Client, error) {
	client, err := a.client()
	if err == nil {
		client.Consent = nil
	}
	return client, err
}
