package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// Bundle is a bundle before it is written.
type Bundle struct {
	Name  string // name of the folder in the archive
	At    time.Time
	Files []File
	Runs  []Found
	Gaps  []string // what was not collected, and the reasons
}

// A File is one file of a bundle, with a list of its objects.
type File struct {
	Name    string
	Data    []byte
	Objects []Object
}

// An Object is one API object or one run in a File, with its redactions.
type Object struct {
	Name    string
	Removed []Removal
}

// A Removal is a redaction that a rule made in one object.
type Removal struct{ Rule, What string }

func (b *Bundle) add(f File) { b.Files = append(b.Files, f) }

// left returns the number of redactions.
func (b *Bundle) left() int {
	n := 0
	for _, f := range b.Files {
		for _, o := range f.Objects {
			n += len(o.Removed)
		}
	}
	return n
}

// most is the maximum size of all files together.
const most = 64 << 20

// tooLargeError reports that a bundle is above the maximum size.
type tooLargeError struct{ size int }

func (e tooLargeError) Error() string {
	return fmt.Sprintf("the bundle would have %d MiB, but the limit is %d MiB: name fewer nodes or runs", e.size>>20, most>>20)
}

// Sentence marks the error as text for users (apierror.Sentence).
func (e tooLargeError) Sentence() {}

// fits returns an error if the bundle is above the maximum size.
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
