package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Help returns the command that describes the other commands.
func (s *Shell) Help() *Command {
	return &Command{
		Name: "help", Usage: "[COMMAND]", Short: "list the commands, or describe one",
		Check: func(args []string) error {
			switch {
			case len(args) > 1:
				return errors.New("help takes one command at most: help ping")
			case len(args) == 1 && s.named(args[0]) == nil:
				if m := meant(s.names(), args[0]); m != "" {
					return fmt.Errorf("there is no command %q: did you mean %q?", args[0], m)
				}
				return fmt.Errorf("there is no command %q; 'help' lists them", args[0])
			}
			return nil
		},
		Run: func(_ context.Context, c *Call) error {
			if len(c.Args) == 1 {
				return explain(c.Out, s.named(c.Args[0]))
			}
			return s.overview(c.Out)
		},
		Complete: func(_ context.Context, before []string) []string {
			if len(before) > 0 {
				return nil
			}
			return s.names()
		},
	}
}

func (s *Shell) overview(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range s.Commands {
		fmt.Fprintf(t, "%s\t%s\n", c.Name, c.Short)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, `
help COMMAND describes a command; ; separates commands; "| less" pipes the output to a local command
Tab completes, Ctrl-C stops the running command or clears the line, Ctrl-D exits`)
	return err
}

func explain(w io.Writer, c *Command) error {
	text := c.Name
	if c.Usage != "" {
		text += " " + c.Usage
	}
	text += "\n" + c.Short + "\n"
	if c.Doc != "" {
		text += "\n" + c.Doc + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
