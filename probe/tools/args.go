package tools

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// check turns a parser into a Tool.Check. The Tool.Check only reports the parser's error.
func check[A any](parse func([]string) (A, error)) func([]string) error {
	return func(args []string) error { _, err := parse(args); return err }
}

// options returns a tool's flag set. Package flag does not print anything, because the session reports errors.
func options(tool string) *flag.FlagSet {
	f := flag.NewFlagSet(tool, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// words parses options at any position among the arguments, and returns the other words. Its error is one line for
// the user.
func words(f *flag.FlagSet, args []string) ([]string, error) {
	var out []string
	args = separated(f, args)
	for len(args) > 0 {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, fmt.Errorf("'help %s' lists the options of %s", f.Name(), f.Name())
		} else if err != nil {
			text, _ := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
			if text != err.Error() {
				return nil, fmt.Errorf("%s has no option %s; 'help %s' lists them", f.Name(), text, f.Name())
			}
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if args = f.Args(); len(args) > 0 {
			out, args = append(out, args[0]), args[1:]
		}
	}
	return out, nil
}

// separated splits short options that are written together, as shells do: -c1 is -c 1, and -ft is -f -t.
func separated(f *flag.FlagSet, args []string) []string {
	var out []string
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) < 2 || name == arg || name[0] == '-' || f.Lookup(name) != nil {
			out = append(out, arg)
			continue
		}
		split, rest := []string{}, arg[1:]
		for rest != "" {
			option := f.Lookup(rest[:1])
			if option == nil {
				split = []string{arg} // the parser reports the unknown option
				break
			}
			split, rest = append(split, "-"+rest[:1]), rest[1:]
			if is, ok := option.Value.(interface{ IsBoolFlag() bool }); !ok || !is.IsBoolFlag() {
				split = append(split, strings.TrimPrefix(rest, "="))
				break
			}
		}
		out = append(out, split...)
	}
	return out
}

// seconds adds a duration option: 200ms, or a plain number of seconds.
func seconds(f *flag.FlagSet, into *time.Duration, name string, value time.Duration) {
	*into = value
	f.Func(name, "", func(text string) error {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e6 {
			*into = time.Duration(n * float64(time.Second))
			return nil
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("a time is 5s or 200ms")
		}
		*into = d
		return nil
	})
}

// within rejects an option value that is out of range.
func within[T int | time.Duration](option string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("%s takes %v to %v, not %v", option, least, most, value)
	}
	return nil
}
