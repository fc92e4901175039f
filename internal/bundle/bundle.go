// Package bundle makes the archive for support: saved runs, their reports, and the API objects behind their causes,
// without secrets and private data.
//
//	b, err := bundle.Make(given)  // the whole archive, in memory
//	b.List(stdout)                // its content, and what was redacted in each object
//	err = b.Write(file)
//
// keptOf lists the fields that are kept for each kind, and rules describes what is redacted. The layout is that of
// troubleshoot.sh's support bundles, so that their tools can read it. The package reads no API: its caller collects
// the objects.
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

// Given is the input of a bundle.
type Given struct {
	ID      string // distinguishes it from other bundles
	At      time.Time
	Runs    []report.Saved
	Objects []cluster.Objects
	Version *version.Info // of the API server, nil = unknown
	Own     []string      // the namespaces of the cluster's own pods
	Gaps    []string      // what else was not collected, and why
}

// isID reports whether an ID is safe in the name of a folder.
var isID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`).MatchString

// Make builds a bundle in memory.
func Make(g Given) (*Bundle, error) {
	if !isID(g.ID) {
		return nil, fmt.Errorf("invalid bundle ID %q", g.ID)
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

// versionFile marks the archive as a support bundle for tools that read those.
func versionFile() []byte {
	return fmt.Appendf(nil, "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec:\n  versionNumber: calico-probe-%s\n", probe.Release)
}
