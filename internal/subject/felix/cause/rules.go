// Package cause has the causes of Felix: its health, and what calico-node logs while it runs: what each looks like in
// the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	kernelLacks, tablesUnreadable, bpfRefused, typhaCertificate, typhaStale, cniTokenUnrenewed, loopbackDropped,
	localhostForeign, localhostMissing, felixElsewhere, felixHealthOff, felixWaits, felixDataplaneLate, felixStuck,
	felixDown,
}
