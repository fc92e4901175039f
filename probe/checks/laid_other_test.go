//go:build !linux

package checks

func laying() map[string]func(name string) error { return nil }
