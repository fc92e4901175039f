//go:build !linux

package tally

import "errors"

func linkTallies() ([]Tally, error) { return nil, errors.ErrUnsupported }

func queueTallies() ([]Tally, error) { return nil, errors.ErrUnsupported }

func listenerTallies(int) ([]Tally, error) { return nil, errors.ErrUnsupported }
