// Package bundle is what is given to support: one archive with saved runs, their reports, and the API objects that
// their causes rest on, without what is nobody else's business.
//
//	b, err := bundle.Make(given)  // everything that the archive has, in memory
//	b.List(stdout)                // what that is, and what was left out of each object
//	err = b.Write(file)
//
// What of an object is kept is listed for its kind (keptOf); rules says what is left out. The objects lie where the
// support bundles of troubleshoot.sh have them, so that what reads those reads these.
package bundle

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// Given is what a bundle is made of.
type Given struct {
	ID      string // what tells it from others
	At      time.Time
	Runs    []report.Saved
	Objects []cluster.Objects
	Version *version.Info // of the API server, nil = not known
	Own     []string      // the namespaces of the cluster's own pods
	Gaps    []string      // what else was not collected, and why
}

// isID reports whether an ID may stand in the name of a folder.
var isID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`).MatchString

// Make makes a bundle.
func Make(g Given) (*Bundle, error) {
	if !isID(g.ID) {
		return nil, fmt.Errorf("%q is no ID of a bundle", g.ID)
	}
	b := &Bundle{Name: "calico-probe-bundle-" + g.ID, At: g.At, Gaps: g.Gaps}
	if err := b.addRuns(g.Runs); err != nil {
		return nil, err
	}
	if err := b.addObjects(g); err != nil {
		return nil, err
	}
	b.add(File{Name: "version.yaml", Data: versionFile()})
	b.add(File{Name: "redactions.txt", Data: b.redactions()})
	b.Files = append([]File{{Name: "README.md", Data: b.readme()}}, b.Files...)
	return b, b.fits()
}

// versionFile tells readers of such bundles that this is one.
func versionFile() []byte {
	return fmt.Appendf(nil, "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec:\n  versionNumber: calico-probe-%s\n", probe.Release)
}
