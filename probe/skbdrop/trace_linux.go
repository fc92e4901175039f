package skbdrop

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

//go:embed skbdrop.o
var object []byte

// filter corresponds to struct filter in the programs.
type filter struct {
	Addrs    [maxAddrs][16]byte
	Numbers  [maxNumbers]uint16 // in network byte order
	VXLAN    uint16
	Protocol uint8
	_        uint8
}

// event corresponds to struct event in the programs.
type event struct {
	Time                           uint64
	Kind, Reason, Namespace, Index uint32
	Src, Dst                       [16]byte
	Seq                            uint32
	SrcPort, DstPort               uint16 // in network byte order
	Protocol, Type, TTL            uint8
	Quoted, Wrapped                uint8
	_                              [3]uint8
	Interface                      [16]byte
	Calls                          [6][48]byte
}

// wire converts a number to network byte order.
func wire(n uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)) }

// Trace is a running trace.
type Trace struct {
	programs *ebpf.Collection
	links    []link.Link
	events   *ringbuf.Reader
	reasons  map[uint32]string
	filter   filter
	ports    []uint16
	began    time.Duration // according to the programs' clock
}

// points lists the tracepoints, and the program to attach to each. The program for drops comes first, so that no drop
// is missed after a packet is seen to leave.
var points = []string{"dropped", "came", "left"}

// Open starts a trace. If this kernel or the rights of this process do not allow it, it returns an UnavailableError.
func Open(f Filter) (*Trace, error) {
	if err := f.valid(); err != nil {
		return nil, err
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, &UnavailableError{NoBTF, err}
	}
	t := &Trace{}
	if t.reasons, err = reasons(kernel); err != nil {
		return nil, err
	}
	if err := t.load(kernel); err != nil {
		return nil, errors.Join(refused(err), t.Close())
	}
	if err := t.start(f); err != nil {
		return nil, errors.Join(refused(err), t.Close())
	}
	return t, nil
}

// reasons returns the names of the drop reasons, by this kernel's numbers. The numbers differ between kernel versions.
func reasons(kernel *btf.Spec) (map[uint32]string, error) {
	var point *btf.Typedef
	if err := kernel.TypeByName("btf_trace_kfree_skb", &point); err != nil {
		return nil, &UnavailableError{NoReasons, err}
	}
	var names *btf.Enum
	if pointer, is := point.Type.(*btf.Pointer); is {
		// The first parameter belongs to the tracepoint. It is followed by the packet, the location and the reason.
		if f, is := pointer.Target.(*btf.FuncProto); is && len(f.Params) >= 4 {
			names, _ = btf.As[*btf.Enum](f.Params[3].Type)
		}
	}
	if names == nil {
		return nil, &UnavailableError{Why: NoReasons}
	}
	out := map[uint32]string{}
	for _, v := range names.Values {
		out[uint32(v.Value)] = strings.TrimPrefix(v.Name, "SKB_DROP_REASON_")
	}
	return out, nil
}

func (t *Trace) load(kernel *btf.Spec) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("reading the programs: %w", err)
	}
	options := ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: kernel}}
	if t.programs, err = ebpf.NewCollectionWithOptions(spec, options); err != nil {
		return fmt.Errorf("loading programs into the kernel: %w", err)
	}
	return nil
}

func (t *Trace) start(f Filter) error {
	for i, a := range f.Addrs {
		t.filter.Addrs[i] = a.As16()
	}
	for i, n := range f.Numbers {
		t.filter.Numbers[i] = wire(n)
	}
	t.filter.VXLAN, t.filter.Protocol = wire(f.VXLAN), f.Protocol
	if err := t.set(); err != nil {
		return err
	}
	var err error
	if t.events, err = ringbuf.NewReader(t.programs.Maps["skbdrop_events"]); err != nil {
		return fmt.Errorf("opening the programs' output: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("reading the clock: %w", err)
	}
	t.began = time.Duration(now.Nano())
	return t.attach()
}

// attach attaches the programs to their tracepoints.
func (t *Trace) attach() error {
	for _, name := range points {
		l, err := link.AttachTracing(link.TracingOptions{Program: t.programs.Programs[name]})
		if err != nil {
			return fmt.Errorf("attaching a program to its tracepoint: %w", err)
		}
		t.links = append(t.links, l)
	}
	return nil
}

func (t *Trace) set() error {
	if err := t.programs.Variables["filter"].Set(t.filter); err != nil {
		return fmt.Errorf("setting the filter: %w", err)
	}
	return nil
}

// Ports returns the ports that Control has assigned to sockets.
func (t *Trace) Ports() []uint16 { return t.ports }

// add adds a port to the filter.
func (t *Trace) add(n uint16) error {
	t.ports = append(t.ports, n)
	i := slices.Index(t.filter.Numbers[:], 0)
	if i < 0 {
		return fmt.Errorf("a filter has %d numbers at most", maxNumbers)
	}
	t.filter.Numbers[i] = wire(n)
	return t.set()
}

// End stops the trace. It returns the events in order, and the gaps.
func (t *Trace) End() (events []Event, gaps Gaps, err error) {
	skipped, err := t.skipped()
	errs := []error{t.detach(), err}
	t.events.SetDeadline(time.Now())
	for {
		record, err := t.events.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		var raw event
		if err == nil && binary.Size(raw) != len(record.RawSample) {
			err = fmt.Errorf("an event has %d bytes, not %d", len(record.RawSample), binary.Size(raw))
		}
		if err == nil {
			err = binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &raw)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the programs' output: %w", err))
			break
		}
		events = append(events, t.event(raw))
	}
	var noted uint32
	if err := t.programs.Variables["noted"].Get(&noted); err != nil {
		errs = append(errs, fmt.Errorf("reading the amount of output: %w", err))
	}
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.At - b.At) })
	gaps = Gaps{More: max(0, int(noted)-len(events)), Skipped: skipped}
	return events, gaps, errors.Join(append(errs, t.Close())...)
}

// skipped returns the number of times that the kernel did not run a program because the program was
// already running on that CPU.
func (t *Trace) skipped() (int, error) {
	var n uint64
	for _, name := range points {
		stats, err := t.programs.Programs[name].Stats()
		if err != nil {
			return 0, fmt.Errorf("reading how often the programs were skipped: %w", err)
		}
		n += stats.RecursionMisses
	}
	return int(min(n, math.MaxInt32)), nil
}

func (t *Trace) event(raw event) Event {
	text := func(b []byte) string { s, _, _ := bytes.Cut(b, []byte{0}); return string(s) }
	addr := func(a [16]byte, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a).Unmap(), wire(port))
	}
	e := Event{
		At: time.Duration(raw.Time) - t.began, Kind: Kind(raw.Kind), Namespace: raw.Namespace, Index: raw.Index,
		Interface: text(raw.Interface[:]), Src: addr(raw.Src, raw.SrcPort), Dst: addr(raw.Dst, raw.DstPort),
		Protocol: raw.Protocol, Type: raw.Type, Seq: raw.Seq, TTL: raw.TTL, Wrapped: raw.Wrapped > 0, Quoted: raw.Quoted > 0,
	}
	if raw.Protocol == TCP {
		e.Seq = binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, raw.Seq))
	} else {
		e.Seq = uint32(wire(uint16(raw.Seq)))
	}
	if e.Kind != Dropped {
		return e
	}
	if e.Reason = t.reasons[raw.Reason]; e.Reason == "" { // a subsystem's own reason: only its module has the name
		e.Reason = strconv.FormatUint(uint64(raw.Reason), 10)
	}
	for _, c := range raw.Calls {
		if name := text(c[:]); name != "" {
			e.Calls = append(e.Calls, name)
		}
	}
	return e
}

func (t *Trace) detach() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.links = nil
	return errors.Join(errs...)
}

// Close removes all programs from the kernel. It is safe to call Close twice.
func (t *Trace) Close() error {
	errs := []error{t.detach()}
	if t.events != nil {
		errs = append(errs, t.events.Close())
	}
	if t.programs != nil {
		t.programs.Close()
	}
	t.events, t.programs = nil, nil
	return errors.Join(errs...)
}

// refused explains why the kernel rejected a program.
func refused(err error) error {
	switch {
	case locked(err):
		return &UnavailableError{Why: Lockdown}
	case errors.Is(err, unix.EPERM): // EACCES comes from the verifier, which rejects the program
		return &UnavailableError{NoRight, err}
	}
	return err
}

// locked reports whether the kernel denies the function with which programs read the kernel's memory. For a program
// that may read it, the kernel does this only if it is locked down to confidentiality.
func locked(err error) bool {
	var v *ebpf.VerifierError
	return errors.As(err, &v) && slices.ContainsFunc(v.Log, func(line string) bool {
		return strings.Contains(line, "probe_read_kernel") && (strings.Contains(line, "unknown func") ||
			strings.Contains(line, "cannot use helper"))
	})
}
