// Package journal reads the newest entries of a systemd journal file. It does not need systemd's libraries. In a
// file, objects refer to each other by their offset. Entries are listed in arrays. Each array is twice as long as the
// one before it, so the last entries can be found quickly.
//
//	entries, err := journal.Tail(ctx, f, size, journal.Want{Units: []string{"kubelet.service"}, Since: then})
//
// A file may be truncated or malicious, and journald may be writing to it at the same time. The package therefore
// checks every offset, limits the amount of data, and skips invalid objects. It does not verify seals and hashes. It
// reads objects that are uncompressed or compressed with zstd or LZ4. It supports the regular format, and the compact
// format of systemd 252 and later.
//
// Format: systemd.io/JOURNAL_FILE_FORMAT.
package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Entry is one line that a service logged, or that systemd logged about the service.
type Entry struct {
	Time  time.Time
	Unit  string // the service that logged it, as determined by journald itself
	PID   string // the process that logged it
	About bool   // true if systemd logged it about the service
	Text  string
}

// Kernel represents the kernel in Want.Units.
const Kernel = "kernel"

// Want selects entries.
type Want struct {
	Units []string  // from these services, or from the Kernel
	Since time.Time // not older than this time
	Most  int       // maximum number of entries for each service
}

// Limits on what is read from a file.
const (
	maxEntries = 30_000   // a noisy service may have pushed the wanted entries far back
	maxArrays  = 64       // number of entry arrays; each is twice as long as the one before it
	maxItems   = 128      // number of fields in an entry
	maxPacked  = 64 << 10 // size of a compressed object in bytes
	maxText    = 8 << 10  // length of a line in bytes
	maxKnown   = 8192     // number of cached objects
	maxField   = 200      // size in bytes of a field other than the line
)

// Sizes and types of objects.
const (
	headerSize = 208 // the part that exists in all versions
	objectSize = 16
	arraySize  = 24
	entrySize  = 64

	kindData  = 1
	kindEntry = 3
	kindArray = 6

	packedXZ, packedLZ4, packedZSTD = 1, 2, 4 // an object's flags

	formKnown   = 1<<5 - 1 // the flags of a file that this package supports: xz, lz4, keyed hash, zstd, compact
	formCompact = 1 << 4
)

// notRead replaces a line that uses an unsupported compression.
const notRead = "(a long line, in an unsupported compression)"

// errCut reports that there are too many entries since the requested time.
var errCut = fmt.Errorf("the journal has more than %d entries since then: older entries were not read", maxEntries)

// errBroken reports an object that is invalid, or that is in an invalid place.
var errBroken = errors.New("the journal file is broken")

// file is an open journal file.
type file struct {
	io.ReaderAt
	size    uint64
	compact bool
	arrays  uint64 // offset of the first entry array
	entries uint64
	known   map[uint64]field
}

// Span returns the times of the first and last entry in a file.
func Span(r io.ReaderAt) (from, to time.Time, err error) {
	head, err := header(r)
	if err != nil {
		return from, to, err
	}
	return moment(head[184:]), moment(head[192:]), nil
}

// Tail returns the wanted entries among the last entries in a file, with the oldest first. If the last entries do not
// go back far enough, it also returns errCut.
func Tail(ctx context.Context, r io.ReaderAt, size int64, want Want) ([]Entry, error) {
	head, err := header(r)
	if err != nil {
		return nil, err
	}
	flags := binary.LittleEndian.Uint32(head[12:])
	if flags&^uint32(formKnown) != 0 {
		return nil, fmt.Errorf("the journal file has a newer format (flags %#x): not read", flags)
	}
	f := &file{ReaderAt: r, size: uint64(max(0, size)), compact: flags&formCompact != 0,
		entries: binary.LittleEndian.Uint64(head[152:]), arrays: binary.LittleEndian.Uint64(head[176:]),
		known: map[uint64]field{}}
	out, have := []Entry(nil), map[string]int{}
	err = f.back(ctx, func(at uint64) bool {
		e, when, ok := f.entry(at, want)
		if ok && have[e.Unit] < want.Most {
			have[e.Unit]++
			out = append(out, e)
		}
		return when.IsZero() || !when.Before(want.Since)
	})
	slices.Reverse(out)
	return out, err
}

func header(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, headerSize)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("reading a journal file's header: %w", err)
	}
	if !bytes.HasPrefix(head, []byte("LPKSHHRH")) {
		return nil, errors.New("not a journal file")
	}
	return head, nil
}

// moment parses a time, which the format stores in microseconds.
func moment(b []byte) time.Time {
	return time.UnixMicro(int64(binary.LittleEndian.Uint64(b) & (1<<62 - 1)))
}

// back calls use with the offset of each entry until use returns false. It starts with the newest entry.
func (f *file) back(ctx context.Context, use func(at uint64) bool) error {
	arrays, err := f.arraysOf()
	if err != nil {
		return err
	}
	left := maxEntries
	for _, a := range slices.Backward(arrays) {
		for end := a.used; end > 0; {
			n := min(end, 512)
			items, err := f.read(a.at+arraySize+(end-n)*f.item(), n*f.item())
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			for i := n; i > 0; i-- {
				if left--; left < 0 {
					return errCut
				}
				if !use(f.offset(items[(i-1)*f.item():])) {
					return nil
				}
			}
			end -= n
		}
	}
	return nil
}

// array is one array in the list of entries.
type array struct{ at, used uint64 }

// arraysOf lists the entry arrays, and the used length of each.
func (f *file) arraysOf() ([]array, error) {
	var out []array
	left := f.entries
	for at := f.arrays; at != 0 && left > 0; {
		head, size, err := f.object(at, kindArray, arraySize)
		if err != nil {
			return nil, err
		}
		a := array{at, min(left, (size-arraySize)/f.item())}
		out, left = append(out, a), left-a.used
		next := binary.LittleEndian.Uint64(head[objectSize:])
		if next != 0 && next <= at || len(out) > maxArrays { // a later array has a higher offset
			return nil, errBroken
		}
		at = next
	}
	return out, nil
}

// item returns the size of an offset in an array.
func (f *file) item() uint64 {
	if f.compact {
		return 4
	}
	return 8
}

func (f *file) offset(b []byte) uint64 {
	if f.compact {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// read reads a part of the file. It rejects ranges that are outside the file.
func (f *file) read(at, n uint64) ([]byte, error) {
	if at > f.size || n > f.size-at || n > maxPacked {
		return nil, errBroken
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("reading a journal file: %w", err)
	}
	return b, nil
}

// object reads the first bytes of an object of the given type. It also returns the size of the whole object.
func (f *file) object(at uint64, kind byte, least uint64) ([]byte, uint64, error) {
	head, err := f.read(at, least)
	if err != nil {
		return nil, 0, err
	}
	size := binary.LittleEndian.Uint64(head[8:])
	if head[0] != kind || size < least || size > f.size-at {
		return nil, 0, errBroken
	}
	return head, size, nil
}

// entry reads one entry and its time. It returns false if the entry is not wanted.
func (f *file) entry(at uint64, want Want) (Entry, time.Time, bool) {
	head, size, err := f.object(at, kindEntry, entrySize)
	if err != nil {
		return Entry{}, time.Time{}, false
	}
	e := Entry{Time: moment(head[24:])}
	step := map[bool]uint64{false: 16, true: 4}[f.compact]
	items, err := f.read(at+entrySize, min((size-entrySize)/step, maxItems)*step)
	if err != nil || e.Time.Before(want.Since) {
		return e, e.Time, false
	}
	var texts []uint64
	var about, container, transport, facility string
	for ; len(items) > 0; items = items[step:] {
		offset := f.offset(items)
		switch it := f.fieldAt(offset); it.name {
		case "_SYSTEMD_UNIT":
			e.Unit = it.value
		case "UNIT":
			about = it.value
		case "_PID":
			e.PID = it.value
		case "_TRANSPORT":
			transport = it.value
		case "SYSLOG_FACILITY":
			facility = it.value
		case "CONTAINER_ID", "CONTAINER_NAME": // a container logged it through dockerd's log driver
			container = it.value
		case "MESSAGE", packed:
			texts = append(texts, offset)
		}
	}
	if about != "" && e.PID == "1" {
		e.Unit, e.About = about, true
	}
	if transport == Kernel && facility == "0" { // other facilities come from programs that write to /dev/kmsg
		e.Unit = Kernel
	}
	if container != "" || !slices.Contains(want.Units, e.Unit) {
		return e, e.Time, false
	}
	for _, offset := range texts {
		if name, value, _ := strings.Cut(f.payload(offset), "="); name == "MESSAGE" {
			e.Text = value
			return e, e.Time, true
		}
	}
	return e, e.Time, false
}

// field is a parsed data object.
type field struct{ name, value string }

// packed is the name of a compressed field. Only long fields are compressed.
const packed = "packed"

// fieldAt returns the field at an offset. It caches fields, because most entries share fields.
func (f *file) fieldAt(at uint64) field {
	if it, ok := f.known[at]; ok {
		return it
	}
	it := field{}
	if head, size, err := f.object(at, kindData, f.dataSize()); err == nil {
		if head[1]&(packedXZ|packedLZ4|packedZSTD) != 0 {
			it.name = packed
		} else if b, err := f.read(at+f.dataSize(), min(size-f.dataSize(), maxField)); err == nil {
			it.name, it.value, _ = strings.Cut(string(b), "=")
		}
	}
	if it.name == "MESSAGE" { // read only when needed
		it.value = ""
	}
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[at] = it
	return it
}

// dataSize returns the offset of the text in a data object.
func (f *file) dataSize() uint64 {
	if f.compact {
		return 72
	}
	return 64
}

// payload returns the beginning of the text in a data object, or "" if the text cannot be read.
func (f *file) payload(at uint64) string {
	head, size, err := f.object(at, kindData, f.dataSize())
	if err != nil {
		return ""
	}
	form := head[1] & (packedXZ | packedLZ4 | packedZSTD)
	most := uint64(maxText)
	if form != 0 {
		most = maxPacked
	}
	b, err := f.read(at+f.dataSize(), min(size-f.dataSize(), most))
	if err != nil {
		return ""
	}
	if form != 0 {
		b = unpack(form, b)
	}
	return strings.ToValidUTF8(string(b), "?")
}
