package ui

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// TestReaderGone requires ErrReaderGone for a closed reader, and for no other error.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := io.WriteString(NewScreen(w, nil), "x"); !errors.Is(err, ErrReaderGone) || !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = full.Close() }()
	if _, err := io.WriteString(NewScreen(full, nil), "x"); err == nil || errors.Is(err, ErrReaderGone) {
		t.Error(err)
	}
}
