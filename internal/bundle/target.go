package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/calico-probe/calico-probe/internal/ui"
)

// A Target is the output file of a bundle. Until it is complete, it has a temporary name.
type Target struct{ f *os.File }

// Reserve creates the file under its temporary name in a folder. Only the owner can read the file. If the folder is not
// writable, a run fails before it sends a request.
func Reserve(folder string) (*Target, error) {
	f, err := os.CreateTemp(folder, ".calico-probe-bundle-*.tmp")
	if pe, is := errors.AsType[*fs.PathError](err); is { // omit the temporary name
		err = pe.Err
	}
	if err != nil {
		return nil, ui.BadUsage("the bundle cannot be written to %s: %w", folder, err)
	}
	return &Target{f}, nil
}

// Free returns an error if a file of this name exists.
func Free(name string) error {
	switch _, err := os.Lstat(name); {
	case err == nil:
		return ui.BadUsage("%s already exists: name another file", name)
	case !errors.Is(err, fs.ErrNotExist):
		return ui.BadUsage("the bundle cannot be written: %w", err)
	}
	return nil
}

// Keep writes a bundle, and then renames the file to its final name.
func (t *Target) Keep(b *Bundle, name string) error {
	err := b.Write(t.f)
	if err == nil {
		err = t.f.Sync()
	}
	if closed := t.f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	to := filepath.Join(filepath.Dir(t.f.Name()), filepath.Base(name))
	switch err := os.Link(t.f.Name(), to); { // never overwrites an existing file
	case err == nil:
		return os.Remove(t.f.Name())
	case errors.Is(err, fs.ErrExist):
		return Free(to)
	}
	if err := Free(to); err != nil { // for file systems without links, such as FAT
		return err
	}
	return os.Rename(t.f.Name(), to)
}

// Drop removes the temporary file.
func (t *Target) Drop() {
	_ = t.f.Close()
	_ = os.Remove(t.f.Name()) // already removed if the bundle was kept
}
