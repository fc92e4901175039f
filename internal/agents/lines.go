package agents

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage bounds a line from an agent, in bytes.
const maxMessage = 4 << 20

// parseError is JSON-RPC's response to an invalid message (section 5.1). The ID is null because the request's ID is
// unknown.
const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the line is not a JSON-RPC message"}}` + "\n"

// messages passes on lines that are valid messages. It answers any other line, such as output from the parent shell,
// with an error response and drops it, because the SDK would end the session. It also drops batches, because only
// protocol version 2025-03-26 has them.
type messages struct {
	lines *bufio.Reader
	in    io.Closer
	out   io.Writer
	rest  []byte // the rest of a line
}

func (m *messages) Close() error { return m.in.Close() }

func (m *messages) Read(into []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if _, bad := jsonrpc.DecodeMessage(text); bad == nil {
				m.rest = append(text, '\n')
				break
			}
			if _, failed := io.WriteString(m.out, parseError); failed != nil {
				return 0, failed
			}
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(into, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line returns the next line. If the line is too long, it returns a part of it, which is not a valid message.
func (m *messages) line() ([]byte, error) {
	var line []byte
	for {
		part, err := m.lines.ReadSlice('\n')
		if len(line) <= maxMessage {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// shared is a writer for several goroutines, each of which writes whole messages.
type shared struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}
