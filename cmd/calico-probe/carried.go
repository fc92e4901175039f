package main

import (
	"embed"
	"sync"
)

// carried holds the packed probes if 'make build' embedded them.
//
//go:embed carried
var carried embed.FS

// readProbes caches the probes by architecture, because each read copies several MB.
var readProbes sync.Map

// embeddedProbe returns the packed probe for an architecture, or nil if this client does not embed it. Callers must not
// modify the bytes.
func embeddedProbe(arch string) []byte {
	if b, ok := readProbes.Load(arch); ok {
		return b.([]byte)
	}
	b, err := carried.ReadFile("carried/" + arch + ".gz")
	if err != nil { // built without this probe
		return nil
	}
	kept, _ := readProbes.LoadOrStore(arch, b)
	return kept.([]byte)
}
