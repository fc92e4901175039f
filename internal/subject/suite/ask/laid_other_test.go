//go:build !linux

package ask

func laying() map[string]func(name string) error { return nil }
