//go:build !linux

package main

// held lists the access that this process has. Only Linux reports it.
func held() []string { return nil }
