package session

import (
	"encoding/binary"
	"time"
)

// The block types and options in this file, with the numbers from draft-ietf-opsawg-pcapng.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	comment             = 1
	sectionBy           = 4
	interfaceName       = 2
	interfaceResolution = 9
	interfaceFilter     = 11
	interfaceOS         = 12
	packetFlags         = 2
	statisticsDropped   = 5

	linkCooked = 113 // LINKTYPE_LINUX_SLL
)

var littleEndian = binary.LittleEndian

// option is an optional field of a block. Empty options are omitted.
type option struct {
	code  uint16
	value []byte
}

// write writes a block with a single call, because a reader may already have the file open.
func (f *Pcapng) write(kind uint32, body []byte, options ...option) error {
	var more []byte
	for _, o := range options {
		if len(o.value) == 0 {
			continue
		}
		more = littleEndian.AppendUint16(more, o.code)
		more = littleEndian.AppendUint16(more, uint16(len(o.value)))
		more = padded(append(more, o.value...))
	}
	more = append(more, 0, 0, 0, 0) // end of options
	length := uint32(12 + len(body) + len(more))
	b := littleEndian.AppendUint32(nil, kind)
	b = littleEndian.AppendUint32(b, length)
	b = append(append(b, body...), more...)
	_, err := f.to.Write(littleEndian.AppendUint32(b, length))
	return err
}

// padded pads to a multiple of four bytes.
func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

// moment appends a time with the upper half first.
func moment(b []byte, t time.Time) []byte {
	at := uint64(t.UnixNano())
	b = littleEndian.AppendUint32(b, uint32(at>>32))
	return littleEndian.AppendUint32(b, uint32(at))
}
