package causefile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// CheckWords holds a check's texts for people.
type CheckWords struct {
	Asks string // the question in one line
	Doc  string // why it matters, what each answer means and what usually breaks it: one line per paragraph
}

// readChecks reads the texts of checks by ID, from the files checks/ID.md of a folder. Each has a heading and a text.
func readChecks(files fs.FS) (map[string]CheckWords, error) {
	names, err := fs.Glob(files, "checks/*.md")
	if err != nil {
		return nil, err
	}
	out := map[string]CheckWords{}
	var bad []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		blocks := split(string(text))
		if len(blocks) < 2 || !strings.HasPrefix(blocks[0], "# ") {
			bad = append(bad, fmt.Errorf("%s: needs a heading and a text", name))
			continue
		}
		id := strings.TrimSuffix(path.Base(name), ".md")
		out[id] = CheckWords{strings.TrimPrefix(blocks[0], "# "), strings.Join(blocks[1:], "\n")}
	}
	return out, errors.Join(bad...)
}

// MustChecks returns the texts in embedded files. It panics if readChecks returns an error; a test reads every file.
func MustChecks(files fs.FS) map[string]CheckWords {
	words, err := readChecks(files)
	if err != nil {
		panic(err)
	}
	return words
}
