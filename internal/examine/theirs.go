package examine

import (
	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
)

// Theirs returns the causes of an operator's folder, "" for none. Its error has a line for each fault of a file.
func Theirs(dir string) ([]*diagnose.Rule, error) {
	if dir == "" {
		return nil, nil
	}
	return causefile.Theirs(dir, evidence.Shared(), Known())
}

// Known returns what the linter of causes holds a file against.
func Known() causefile.Known {
	known := causefile.Known{Checks: CheckIDs(Suite())}
	for _, rule := range cause.All().Rules {
		known.Causes = append(known.Causes, rule.ID)
	}
	return known
}
