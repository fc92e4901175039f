package agents

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage is how long a line of an agent's may be.
const maxMessage = 4 << 20

// parseError is JSON-RPC's answer to what is no message (section 5.1): the request, and so its ID, is not known.
const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the line is not a JSON-RPC message"}}` + "\n"

// messages reads whole lines that are messages. Any other line, such as what a shell that started us printed, is
// answered with an error and left out: the SDK ends the session at the first. So is a batch, which only the protocol of
// 2025-03-26 has.
type messages struct {
	lines *bufio.Reader
	in    io.Closer
	out   io.Writer
	rest  []byte // of a line that was read
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

// line is the next line; of one that is too long a part, which is no message.
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

// shared is a writer that several write whole messages to.
type shared struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}
