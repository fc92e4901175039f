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

// The age and the number of journals above which old journals are removed.
const (
	journalsAge  = 30 * 24 * time.Hour
	journalsKept = 100
)

// droppedFlags are the flags that a journal omits: secrets, and flags that concern only one call.
var droppedFlags = []string{"token", "password", "username", "resume", "journal", "node", "param", "output", "runbooks",
	"yes"}

// isKept reports whether a journal keeps a flag. The address of a server or proxy is kept only if it consists of
// scheme, host and port. Other parts may be secret: user name and password, or a token in the path.
func isKept(name, value string) bool {
	if slices.Contains([]string{"server", "proxy-url"}, name) {
		_, at, ok := strings.Cut(value, "://")
		if !ok {
			at = value
		}
		return !strings.ContainsAny(strings.TrimSuffix(at, "/"), "@/?#")
	}
	return !slices.Contains(droppedFlags, name)
}

// secretFlags returns the secret flags of this call, which a user must repeat to resume.
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

// flagsToKeep returns the flags of this call that a resumed runbook reuses.
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
			if abs, err := filepath.Abs(values[0]); err == nil { // a user may resume from another folder
				values[0] = abs
			}
		}
		out[f.Name] = values
	})
	return out
}

// setAgain sets a flag to its value in the journal, unless it is set now. It adds new answers and actions to those in
// the journal.
func setAgain(cmd *cobra.Command, name string, values []string) error {
	f := cmd.Flags().Lookup(name)
	switch {
	case f == nil:
		return errors.New("unknown flag")
	case slices.Contains(droppedFlags, name):
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

// apiOf returns a configuration's API address without secrets. The path can distinguish clusters behind one host, but
// it may contain a token, so apiOf replaces it with its checksum.
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

// createJournal creates the journal at --journal, or in the user's state folder. If that folder is not writable, the
// runbook still runs, but cannot be resumed.
func (o *runbookOptions) createJournal(b runbook.Header) (*runbook.Journal, error) {
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
	ui.Say(o.ErrOut, "the journal cannot be saved, so you cannot resume this runbook: %v; use --journal FILE to save it elsewhere", err)
	return runbook.NewJournal(b), nil
}
