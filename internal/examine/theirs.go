package examine

import (
	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
)

// Theirs returns the causes from an operator's folder. If dir is "", there is no folder. Its error has a line for each
// mistake in a file.
func Theirs(dir string) ([]*diagnose.Rule, error) {
	if dir == "" {
		return nil, nil
	}
	return causefile.Theirs(dir, evidence.Shared(), Known())
}

// Known returns the names that the linter of causes accepts in a file.
func Known() causefile.Known {
	known := causefile.Known{Checks: CheckIDs(Suite())}
	for _, rule := range cause.All().Rules {
		known.Causes = append(known.Causes, rule.ID)
	}
	return known
}
