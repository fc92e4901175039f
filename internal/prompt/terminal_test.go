package prompt

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestAtTerminal is a shell for the tests that drive a terminal. Its commands panic, and print while the next one is
// typed.
func TestAtTerminal(t *testing.T) {
	if os.Getenv("SHELL_TEST_TERMINAL") == "" {
		t.Skip("is run by the end-to-end tests, on a terminal")
	}
	e := NewEditor(os.Stderr, true)
	defer e.Close()
	s := &Shell{
		Out: os.Stdout, ErrOut: os.Stderr, Terminal: true, Editor: e,
		Prompt:     func() string { return "at> " },
		Failed:     func(_ Line, err error) { fmt.Println(err) },
		Interrupts: func(func()) func() { return func() {} },
	}
	s.Commands = []*Command{
		{
			Name: "panic", Run: func(context.Context, *Call) error { panic("as the test wants it") },
			Complete: func(context.Context, []string) []string { panic("as the test wants it") },
		},
		{
			Name: "go", Check: func([]string) error { return nil },
			Run: func(_ context.Context, c *Call) error { _, err := fmt.Fprintln(c.Out, "gone to", c.Args); return err },
			Complete: func(context.Context, []string) []string {
				return []string{"10.0.0.1\tnode-a", "10.0.0.12\tdefault/web-1", "192.0.2.1\tnode-b"}
			},
		},
		{Name: "row", Run: func(_ context.Context, c *Call) error {
			_, err := fmt.Fprintln(c.Out, "kube-system/calico-node-x7k2p  calico-node  running  41d  0  calico/node:v3.32.1")
			return err
		}},
		{Name: "fails", Run: func(context.Context, *Call) error {
			fmt.Fprintln(e.Beside(os.Stderr), "calico-probe: node-b does not answer: the probe on it has ended by itself")
			return nil
		}},
		{Name: "later", Run: func(context.Context, *Call) error {
			time.AfterFunc(time.Second, func() { fmt.Fprintln(e.Beside(os.Stdout), "said meanwhile") })
			return nil
		}},
	}
	if err := s.Interact(t.Context()); err != nil {
		t.Error(err)
	}
}
