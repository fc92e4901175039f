// Package tally reads the kernel's counters of a network namespace that show where packets are lost: those of the
// protocols, interfaces, queues, sockets and connection tracking. All is the entry point. It does not judge a counter:
// package drops compares two readings.
package tally

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Tally is one of the kernel's counters in a network namespace.
type Tally struct {
	Table string // its table: one of the names below
	Of    string // the interface, queue or socket to which it belongs, "" = the whole namespace
	Name  string // the kernel's name: "IpInDiscards"
	N     uint64
}

// The tables that contain tallies, as Tally.Table names them.
const (
	SNMP      = "snmp"      // /proc/net/snmp and snmp6: the protocols
	Netstat   = "netstat"   // /proc/net/netstat: Linux's own counters of the protocols
	Softnet   = "softnet"   // /proc/net/softnet_stat: between the NIC and the protocols, for the whole machine
	Conntrack = "conntrack" // /proc/net/stat/nf_conntrack: connection tracking
	XFRM      = "xfrm"      // /proc/net/xfrm_stat: IPsec
	Link      = "link"      // interfaces
	Queue     = "queue"     // queueing disciplines, or hooks of filters (tc)
	Listener  = "listener"  // listening TCP sockets
)

// maxListeners is the maximum number of sockets to read, because an unprivileged pod can open any number of sockets.
const maxListeners = 20_000

// All reads all tallies. If it cannot read some tables, it returns an error for them together with the other
// tables. It skips tables that this kernel does not have.
func All(h *probe.Host) ([]Tally, error) {
	var out []Tally
	var errs []error
	for _, t := range []struct {
		table, file string
		parse       func(table, text string) ([]Tally, error)
	}{
		{SNMP, "net/snmp", byPairs}, {SNMP, "net/snmp6", byName}, {Netstat, "net/netstat", byPairs},
		{Softnet, "net/softnet_stat", ofSoftnet}, {Conntrack, "net/stat/nf_conntrack", byCPU},
		{XFRM, "net/xfrm_stat", byName},
	} {
		text, err := kernel.ReadProc(h, t.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var read []Tally
		if err == nil {
			read, err = t.parse(t.table, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the counters of %s: %w", t.file, err))
			continue
		}
		out = append(out, read...)
	}
	for _, read := range []func() ([]Tally, error){linkTallies, queueTallies,
		func() ([]Tally, error) { return listenerTallies(maxListeners) }} {
		more, err := read()
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, more...)
	}
	return out, errors.Join(errs...)
}

// errTally reports a table of counters whose format is unknown.
var errTally = errors.New("its format is unknown")

// byPairs parses pairs of lines: a line of names, followed by a line of numbers. Both lines begin
// with the same word: "Ip:".
func byPairs(table, text string) ([]Tally, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var out []Tally
	for i := 0; i+1 < len(lines); i += 2 {
		names, numbers := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || len(numbers) != len(names) || names[0] != numbers[0] {
			return nil, errTally
		}
		of := strings.TrimSuffix(names[0], ":")
		for at, name := range names[1:] {
			n, err := strconv.ParseUint(numbers[at+1], 10, 64)
			if err != nil { // Tcp's MaxConn may be -1
				continue
			}
			out = append(out, Tally{Table: table, Name: of + name, N: n})
		}
	}
	return out, nil
}

// byName parses lines that each contain a name and a number.
func byName(table, text string) ([]Tally, error) {
	var out []Tally
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			return nil, errTally
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return nil, errTally
		}
		out = append(out, Tally{Table: table, Name: f[0], N: n})
	}
	return out, nil
}

// byCPU sums a table that has a line of names, and a line of hexadecimal numbers for each CPU.
func byCPU(table, text string) ([]Tally, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	names := strings.Fields(lines[0])
	out := make([]Tally, len(names))
	for i, name := range names {
		out[i] = Tally{Table: table, Name: name}
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != len(names) {
			return nil, errTally
		}
		for i := range f {
			n, err := strconv.ParseUint(f[i], 16, 64)
			if err != nil {
				return nil, errTally
			}
			out[i].N += n
		}
	}
	return out, nil
}

// softnetColumns names the columns of /proc/net/softnet_stat that count lost packets (net/core/net-procfs.c).
var softnetColumns = map[int]string{1: "dropped", 10: "flow_limit_count"}

// ofSoftnet sums a table that has a line of hexadecimal numbers for each CPU.
func ofSoftnet(table, text string) ([]Tally, error) {
	sums := map[string]uint64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		for column, name := range softnetColumns {
			if column >= len(f) { // an older kernel
				continue
			}
			n, err := strconv.ParseUint(f[column], 16, 64)
			if err != nil {
				return nil, errTally
			}
			sums[name] += n
		}
	}
	var out []Tally
	for name, n := range sums {
		out = append(out, Tally{Table: table, Name: name, N: n})
	}
	return out, nil
}
