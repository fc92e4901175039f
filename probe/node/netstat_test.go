package node

import (
	"testing"
)

// FuzzNetstat reads the kernel's counters.
func FuzzNetstat(f *testing.F) {
	f.Add("TcpExt: IPReversePathFilter\nTcpExt: 12\n")
	f.Fuzz(func(_ *testing.T, text string) { NetCounter(text, "IPReversePathFilter") })
}
