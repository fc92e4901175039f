// Package bundle creates the archive for support: saved runs, their reports, and the API objects behind their causes,
// without secrets or private data.
//
//	b, err := bundle.Make(given)  // the whole archive, in memory
//	b.List(stdout)                // its content, and the redactions in each object
//	err = b.Write(file)
//
// keptOf lists the kept fields of each kind, and rules describes the redactions. The layout follows troubleshoot.sh's
// support bundles, so troubleshoot.sh's tools can read it. The caller collects the API objects: this package does not
// use the API.
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
	Version *version.Info // version of the API server; nil = unknown
	Own     []string      // the namespaces with Calico's and Kubernetes' own pods
	Gaps    []string      // what the caller did not collect, and the reasons
}

// isID reports whether an ID is safe to use in a folder name.
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

// versionFile marks the archive as a support bundle. Tools that read this format need it.
func versionFile() []byte {
	return fmt.Appendf(nil, "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec:\n  versionNumber: calico-probe-%s\n", probe.Release)
}
