package prompt

import (
	"errors"
	"os"
)

// keys does nothing on Windows, where liner reads the console's events itself.
type keys struct{ typed chan struct{} }

func watchKeys() (*keys, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func (*keys) start()       {}
func (*keys) stop()        {}
func (*keys) press(string) {}
func (*keys) close()       {}

func redraw() {}

func continued(func()) func() { return func() {} }
