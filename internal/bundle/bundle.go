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
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
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

// Bundle is a bundle before it is written.
type Bundle struct {
	Name  string // of its folder
	At    time.Time
	Files []File
	Runs  []Found
	Gaps  []string // what was not collected, and why
}

// A File is one file of a bundle, and the objects in it.
type File struct {
	Name    string
	Data    []byte
	Objects []Object
}

// An Object is one API object or one run of a File, and what was left out of it.
type Object struct {
	Name    string
	Removed []Removal
}

// most is how large all files may be together.
const most = 64 << 20

// tooLargeError says that a bundle would be larger than any may be.
type tooLargeError struct{ size int }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("the bundle would have %d MiB, and %d is the most: name fewer nodes or runs", e.size>>20, most>>20)
}

// Sentence marks it as written for the user (cluster.Sentence).
func (e tooLargeError) Sentence() {}

// isID tells whether an ID may stand in the name of a folder.
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

// fits wants a bundle to be no larger than any may be.
func (b *Bundle) fits() error {
	size := 0
	for _, f := range b.Files {
		size += len(f.Data)
	}
	if size > most {
		return tooLargeError{size}
	}
	return nil
}

func (b *Bundle) add(f File) { b.Files = append(b.Files, f) }

// left is how many things were left out.
func (b *Bundle) left() int {
	n := 0
	for _, f := range b.Files {
		for _, o := range f.Objects {
			n += len(o.Removed)
		}
	}
	return n
}

// Write writes the archive.
func (b *Bundle) Write(w io.Writer) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for _, f := range b.Files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(b.Name, f.Name), Size: int64(len(f.Data)), Mode: 0o600,
			ModTime: b.At.UTC().Truncate(time.Second), Format: tar.FormatPAX}
		if err := archive.WriteHeader(head); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Data); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

// versionFile tells readers of such bundles that this is one.
func versionFile() []byte {
	return fmt.Appendf(nil, "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec:\n  versionNumber: calico-probe-%s\n", probe.Release)
}
