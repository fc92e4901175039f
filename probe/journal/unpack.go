package journal

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zstd"
)

// unpack returns the beginning of a compressed text, up to the point where it could be read. It does not support
// xz, which systemd used before LZ4.
func unpack(form byte, b []byte) []byte {
	switch form {
	case packedZSTD:
		return unpackZSTD(b)
	case packedLZ4:
		if len(b) < 8 {
			return nil
		}
		return unpackLZ4(b[8:], int(min(binary.LittleEndian.Uint64(b), maxText)))
	}
	return []byte("MESSAGE=" + notRead)
}

func unpackZSTD(b []byte) []byte {
	d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(1<<20), zstd.WithDecoderMaxWindow(1<<20))
	if err != nil {
		return nil
	}
	defer d.Close()
	out, _ := io.ReadAll(io.LimitReader(d, maxText)) // truncated input still yields the beginning of the text
	return out
}

// unpackLZ4 decompresses an LZ4 block, up to the given number of bytes. A block is a list of sequences. Each sequence
// consists of a token with two lengths, literal bytes, and the distance to the match that must be copied.
func unpackLZ4(in []byte, most int) []byte {
	out := make([]byte, 0, most)
	length := func(half int) int { // if a length is 15, it continues in the bytes that follow
		for more := half == 15; more && len(in) > 0; in = in[1:] {
			half += int(in[0])
			more = in[0] == 255
		}
		return half
	}
	for len(in) > 0 && len(out) < most {
		token := int(in[0])
		in = in[1:]
		n := min(length(token>>4), len(in))
		out = append(out, in[:min(n, most-len(out))]...)
		in = in[n:]
		if len(in) < 2 {
			break
		}
		back := int(binary.LittleEndian.Uint16(in))
		in = in[2:]
		if back == 0 || back > len(out) {
			break
		}
		for n = length(token&15) + 4; n > 0 && len(out) < most; n-- {
			out = append(out, out[len(out)-back])
		}
	}
	return out
}
