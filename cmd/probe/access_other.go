//go:build !linux

package main

// held lists the access of this process, which only Linux reports.
func held() []string { return nil }
