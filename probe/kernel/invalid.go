package kernel

import (
	"fmt"
	"syscall"
)

// Invalid explains why the kernel returned EINVAL instead of a route. The kernel returns EINVAL in several cases
// (fib_validate_source in net/ipv4/fib_frontend.c, ip_route_output_key_hash_rcu in net/ipv4/route.c). Only the
// kernel's tables show which case it is.
type Invalid struct {
	Means Meaning
	By    *Route // the table entry that proves it, nil if no entry does
}

// Meaning is one of the cases of Invalid.
type Meaning string

// The cases of Invalid.
const (
	MeansUnknown       Meaning = ""               // no table shows the reason
	MeansBlackhole     Meaning = "blackhole"      // By discards the packet
	MeansOwnSource     Meaning = "source-local"   // By makes an incoming packet's source this machine's own address
	MeansForeignSource Meaning = "source-foreign" // the source of an outgoing packet is not this machine's address
	MeansMartian       Meaning = "source-martian" // no machine may send packets from that source
)

// Error implements error.
func (e *Invalid) Error() string { return e.Explain() }

// Unwrap returns the kernel's errno.
func (e *Invalid) Unwrap() error { return syscall.EINVAL }

// Explain returns the reason, and the table entry if there is one.
func (e *Invalid) Explain() string {
	switch e.Means {
	case MeansBlackhole:
		return fmt.Sprintf("route %q discards it", e.By)
	case MeansOwnSource:
		return fmt.Sprintf("route %q makes its source an address of this machine, so the kernel drops it as forged", e.By)
	case MeansForeignSource:
		return "its source is not an address of this machine"
	case MeansMartian:
		return "no machine may send from its source address (martian source)"
	}
	return "the kernel refuses it as invalid (EINVAL), and no route shows why"
}
