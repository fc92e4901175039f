package kernel

import (
	"fmt"
	"syscall"
)

// Invalid is the meaning of EINVAL instead of a route. The kernel returns it in several cases (fib_validate_source in
// net/ipv4/fib_frontend.c, ip_route_output_key_hash_rcu in net/ipv4/route.c), which only its tables distinguish.
type Invalid struct {
	Means Meaning
	By    *Route // the table entry that proves it, nil if none does
}

// Meaning is one of the cases of Invalid.
type Meaning string

// The cases of Invalid.
const (
	MeansUnknown       Meaning = ""               // no table shows why
	MeansBlackhole     Meaning = "blackhole"      // By discards the packet
	MeansOwnSource     Meaning = "source-local"   // By makes the source of an incoming packet this machine's own
	MeansForeignSource Meaning = "source-foreign" // the source of an outgoing packet is not this machine's
	MeansMartian       Meaning = "source-martian" // no machine may send from that source
)

// Error implements error.
func (e *Invalid) Error() string { return e.Explain() }

// Unwrap returns the kernel's errno.
func (e *Invalid) Unwrap() error { return syscall.EINVAL }

// Explain returns the reason, with the table entry.
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
