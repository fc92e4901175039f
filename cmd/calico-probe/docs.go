package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/explain"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
)

const docsExample = `  # write the reference of this version, and search it
  calico-probe docs reference
  grep -n FORWARD reference/causes.md`

// docs writes the references and the skills. They are generated, so they are not in git.
func (a *app) docs() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Short: "Write the reference for causes, checks and flags, and skills for agents", Example: docsExample,
		Long: `Writes Markdown into a new or empty folder:

causes.md   each cause, as 'explain' prints it
checks.md   each check, as 'explain' prints it
cli.md      each verb with its flags, and the exit codes
skills/     a SKILL.md for each built-in runbook, for agents that use the tools of 'mcp'

It never overwrites a file. Release archives have the same files in their docs folder.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return ui.BadUsage("docs takes one new or empty folder")
			}
			return emptyFolder(args[0])
		},
		ValidArgsFunction: foldersOnly,
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := a.referencePages(cmd.Root())
			if err != nil {
				return err
			}
			if err := writePages(args[0], pages); err != nil {
				return err
			}
			ui.Say(a.ErrOut, "wrote %d files to %s", len(pages), args[0])
			return nil
		},
	}
}

// emptyFolder rejects a folder that contains files: a page could replace one of them, or mix with another version's
// pages.
func emptyFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return ui.BadUsage("%s is a file; docs takes a new or empty folder", dir)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return ui.BadUsage("%s is not empty; docs takes a new or empty folder", dir)
	}
	return nil
}

// referencePages returns the text of each page, with its slash-separated path below the folder as the key.
func (a *app) referencePages(root *cobra.Command) (map[string]string, error) {
	cli, err := a.cliReference(root)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{"causes.md": written + explain.Reference(cause.All()),
		"checks.md": written + explain.CheckReference(examine.Suite()), "cli.md": cli}
	items, err := library(nil)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		var skill strings.Builder
		if err := runbook.WriteSkill(&skill, it); err != nil {
			return nil, fmt.Errorf("runbook %s: %w", it.Name, err)
		}
		pages[path.Join("skills", runbook.SkillName(it.Name), "SKILL.md")] = skill.String()
	}
	return pages, nil
}

// writePages creates each file exclusively: two runs at once cannot mix their pages.
func writePages(dir string, pages map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(pages[name])
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
