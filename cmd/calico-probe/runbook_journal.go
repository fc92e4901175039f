package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// Journals that nobody resumed are removed.
const (
	journalsAge  = 30 * 24 * time.Hour
	journalsKept = 100
)

// keptOut are flags that a journal does not keep: what is secret, and what is of one call.
var keptOut = []string{"token", "password", "username", "resume", "journal", "node", "param", "output", "runbooks",
	"yes"}

// isKept tells whether a journal keeps a flag. Of the addresses of a server or of a proxy
// whatever is more than scheme, host and port may be secret: a name and a password, a token in
// the path.
func isKept(name, value string) bool {
	if slices.Contains([]string{"server", "proxy-url"}, name) {
		_, at, ok := strings.Cut(value, "://")
		if !ok {
			at = value
		}
		return !strings.ContainsAny(strings.TrimSuffix(at, "/"), "@/?#")
	}
	return !slices.Contains(keptOut, name)
}

// secretFlags are the flags that were given and that who goes on has to give again.
func (o *runbookOptions) secretFlags() string {
	var out strings.Builder
	for _, f := range []struct {
		name, what string
		value      *string
	}{{"token", "TOKEN", o.flags.BearerToken}, {"server", "URL", o.flags.APIServer}, {"proxy-url",
		"URL", o.flags.ProxyURL}} {
		if *f.value != "" && !isKept(f.name, *f.value) {
			out.WriteString(" --" + f.name + " " + f.what)
		}
	}
	return out.String()
}

// flagsToKeep are the flags that were typed, for who goes on.
func flagsToKeep(cmd *cobra.Command) map[string][]string {
	out := map[string][]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !isKept(f.Name, f.Value.String()) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if slices.Contains([]string{"kubeconfig", "ssh-config", "certificate-authority", "client-certificate",
			"client-key", "cache-dir"}, f.Name) {
			if abs, err := filepath.Abs(values[0]); err == nil { // who goes on may be in another folder
				values[0] = abs
			}
		}
		out[f.Name] = values
	})
	return out
}

// setAgain sets a flag as it was, unless it was typed now; answers and actions that are
// typed come to those there were.
func setAgain(cmd *cobra.Command, name string, values []string) error {
	f := cmd.Flags().Lookup(name)
	switch {
	case f == nil:
		return errors.New("there is no such flag")
	case slices.Contains(keptOut, name):
		return nil
	case f.Changed && slices.Contains([]string{"answer", "allow-actions"}, name):
		list := f.Value.(pflag.SliceValue)
		typed := list.GetSlice()
		of := func(text string) string { step, _, _ := strings.Cut(text, "="); return step }
		for _, v := range values {
			if !slices.ContainsFunc(typed, func(t string) bool { return of(t) == of(v) }) {
				typed = append(typed, v)
			}
		}
		return list.Replace(typed)
	case f.Changed:
		return nil
	}
	f.Changed = true
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	if len(values) != 1 {
		return errors.New("it takes one value")
	}
	return f.Value.Set(values[0])
}

// apiOf tells which API a configuration leads to, and nothing that is secret: a path, which may
// be or hold a token and tells clusters behind one host apart, by its sum.
func apiOf(config *rest.Config) (string, error) {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", err
	}
	name := at.Scheme + "://" + at.Host
	if path := strings.Trim(at.Path, "/"); path != "" {
		sum := sha256.Sum256([]byte(path))
		name += "/sha256-" + hex.EncodeToString(sum[:8])
	}
	return name, nil
}

// createJournal begins the journal where it was asked for, else among the user's state.
// Without a place for it there the runbook goes on, and cannot be resumed.
func (o *runbookOptions) createJournal(b runbook.Begun) (*runbook.Journal, error) {
	if o.journal != "" {
		j, err := runbook.CreateJournal(o.journal, b)
		if err != nil {
			return nil, ui.BadUsage("%w", err)
		}
		return j, nil
	}
	dir, err := ui.StateDir()
	if err == nil {
		dir = filepath.Join(dir, "runbooks")
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		runbook.Prune(dir, journalsAge, journalsKept)
		var j *runbook.Journal
		if j, err = runbook.CreateJournal(filepath.Join(dir, runbook.JournalName(b.Runbook, b.Node, b.At)), b); err == nil {
			return j, nil
		}
	}
	ui.Say(o.ErrOut, "no journal is kept, so that this runbook cannot be resumed: %v; --journal FILE keeps one elsewhere", err)
	return runbook.NewJournal(b), nil
}
