// Package bird queries a BIRD routing daemon over its control socket. It parses the output of BIRD 1.6, of Calico's
// BIRD fork, and of BIRD 2. Every session begins with the command "restrict". After that, BIRD itself rejects changes.
//
//	conn, err := bird.Talk(ctx, socket) // waits for the greeting and sends "restrict"
//	protocols, err := conn.Protocols()  // parses "show protocols all"
//
// The protocol is defined in nest/cli.c and doc/reply_codes in BIRD.
package bird

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Line is one line of a reply, without its code: "1002-Mesh_10_0_0_2 BGP ..." has code 1002. A continuation line has
// the same code as the line before it.
type Line struct {
	Code int
	Text string
}

// The reply codes that this package needs.
const (
	codeWelcome    = 1
	codeUp         = 13 // end of "show status"
	codeRestricted = 16
	codeRestarting = 24 // graceful restart in progress
	codeVersion    = 1000
	codeRow        = 1002
	codeDetail     = 1006
	codeRoute      = 1007
	codeUptime     = 1011
	codeErrors     = 8000 // from this code on: the command failed
	codeNoRoute    = 8001 // "Network not in table"
)

// maxReply limits the size of one reply. The details of a mesh with a thousand nodes take 2 MB.
const maxReply = 16 << 20

// ErrNotBIRD reports that the process on the socket does not speak BIRD's protocol.
var ErrNotBIRD = errors.New("this is not BIRD")

// Conn is a restricted connection to BIRD. Only one goroutine may use it.
type Conn struct {
	conn   net.Conn
	in     *bufio.Reader
	ended  func() error // the error from Talk's context
	forget func() bool  // stops waiting for that context
}

// Talk waits for the greeting on a connection to the control socket. Then it restricts the session. When ctx ends,
// the session ends, and a call that is waiting returns the error of ctx. Talk owns the connection even if it fails.
func Talk(ctx context.Context, conn net.Conn) (*Conn, error) {
	c := &Conn{conn: conn, in: bufio.NewReaderSize(conn, maxReplyLine), ended: ctx.Err}
	// The socket has no deadline. Otherwise, a call would fail randomly with either the deadline or the error of ctx.
	c.forget = context.AfterFunc(ctx, func() { conn.Close() })
	if err := c.begin(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// bare removes the path from an error, because this program's path to the socket differs from the path on the node.
func bare(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// because returns the reason why the session ended.
func (c *Conn) because(err error) error {
	if ended := c.ended(); ended != nil {
		return ended
	}
	return bare(err)
}

func (c *Conn) begin() error {
	var last Line
	if err := c.reply(func(l Line) error { last = l; return nil }); err != nil {
		return fmt.Errorf("waiting for the greeting: %w", err)
	}
	if last.Code != codeWelcome {
		return fmt.Errorf("%w: its greeting is %04d %s", ErrNotBIRD, last.Code, last.Text)
	}
	answer, err := c.Ask("restrict")
	if err != nil {
		return err
	}
	if answer[len(answer)-1].Code != codeRestricted {
		return fmt.Errorf("%w: it answered %q to 'restrict'", ErrNotBIRD, answer[len(answer)-1].Text)
	}
	return nil
}

// Close ends the session.
func (c *Conn) Close() error {
	c.forget()
	return c.conn.Close()
}

// Ask sends one command and returns its reply. If BIRD replies with an error code, Ask returns an error.
func (c *Conn) Ask(command string) ([]Line, error) {
	var lines []Line
	size := 0
	err := c.Each(command, func(l Line) error {
		lines = append(lines, l)
		if size += len(l.Text) + len("1234-\n"); size > maxReply {
			return fmt.Errorf("%w: a reply of more than %d bytes", ErrNotBIRD, maxReply)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// Each sends one command. It calls each with every line of the reply as the line arrives, without a size limit. If BIRD
// replies with an error code, Each returns an error. If each returns an error, Each stops and returns that error. After
// that, the Conn is unusable.
func (c *Conn) Each(command string, each func(Line) error) error {
	if _, err := c.conn.Write([]byte(command + "\n")); err != nil {
		return fmt.Errorf("querying %q: %w", command, c.because(err))
	}
	var refused error
	err := c.reply(func(l Line) error {
		if l.Code >= codeErrors {
			refused = &RefusedError{l}
			return nil
		}
		return each(l)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("querying %q: %w", command, err)
	}
	return nil
}

// RefusedError is BIRD's error reply to a command.
type RefusedError struct{ Line Line }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("BIRD answers %04d %s", e.Line.Code, e.Line.Text)
}

// maxReplyLine limits the length of one line of a reply. The longest real lines, which contain BGP
// communities, have a few thousand bytes.
const maxReplyLine = 64 << 10

// reply reads lines up to and including the line that has a space after its code.
func (c *Conn) reply(each func(Line) error) error {
	code := -1
	for {
		raw, err := c.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("%w: a line of more than %d bytes", ErrNotBIRD, maxReplyLine)
		}
		if err != nil {
			return c.because(err)
		}
		line, more, err := parseLine(strings.TrimRight(string(raw), "\r\n"), code)
		if err != nil {
			return err
		}
		if line == nil {
			continue
		}
		code = line.Code
		if err := each(*line); err != nil || !more {
			return err
		}
	}
}

// parseLine parses one line. The given code is the code of the line before it. An asynchronous message (+) does
// not belong to a reply.
func parseLine(raw string, code int) (line *Line, more bool, err error) {
	switch {
	case strings.HasPrefix(raw, "+"):
		return nil, true, nil
	case strings.HasPrefix(raw, " ") && code >= 0:
		return &Line{code, strings.TrimRight(raw[1:], " ")}, true, nil
	case len(raw) >= 5 && (raw[4] == ' ' || raw[4] == '-'):
		if n, bad := strconv.ParseUint(raw[:4], 10, 16); bad == nil {
			return &Line{int(n), strings.TrimRight(raw[5:], " ")}, raw[4] == '-', nil
		}
	}
	return nil, false, fmt.Errorf("%w: a line that begins with %.40q", ErrNotBIRD, raw)
}

// Status is the parsed reply to "show status".
type Status struct {
	Version    string // "v0.3.3+birdv1.6.8", "2.0.12"
	RouterID   string
	ServerTime string // as BIRD prints it: "2026-11-21 03:52:01"
	LastReboot string
	LastLoaded string // the time when BIRD last read its configuration
	Daemon     string // "Daemon is up and running"
	// Restarting is true during graceful-restart recovery. Until Waiting protocols are up or WaitLeft has passed, no
	// BGP route enters the kernel.
	Restarting bool
	Waiting    int           // number of protocols that BIRD is waiting for
	WaitLeft   time.Duration // the part of WaitWhole that is left
	WaitWhole  time.Duration
}

// Status queries the daemon's state.
func (c *Conn) Status() (Status, error) {
	lines, err := c.Ask("show status")
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(lines), nil
}

// ParseStatus parses a reply to "show status". Fields without a value stay empty.
func ParseStatus(lines []Line) Status {
	var s Status
	for _, l := range lines {
		text := strings.TrimSpace(l.Text)
		switch l.Code {
		case codeVersion:
			s.Version = strings.TrimPrefix(text, "BIRD ")
		case codeUp:
			s.Daemon = text
		case codeUptime:
			for prefix, into := range map[string]*string{
				"Router ID is ": &s.RouterID, "Current server time is ": &s.ServerTime,
				"Last reboot on ": &s.LastReboot, "Last reconfiguration on ": &s.LastLoaded,
			} {
				if v, ok := strings.CutPrefix(text, prefix); ok {
					*into = v
				}
			}
		case codeRestarting:
			s.Restarting = true
			s.waiting(text)
		}
	}
	return s
}

func (s *Status) waiting(text string) {
	f := strings.Fields(text)
	switch {
	case strings.HasPrefix(text, "Waiting for ") && len(f) > 2:
		if n, err := strconv.Atoi(f[2]); err == nil {
			s.Waiting = n
		}
	case strings.HasPrefix(text, "Wait timer is "):
		s.WaitLeft, s.WaitWhole = timer(f[len(f)-1])
	}
}

// timer parses the remaining seconds and the total time: "221/240", or "221.334/240" from BIRD 2.
func timer(text string) (left, whole time.Duration) {
	a, b, _ := strings.Cut(text, "/")
	seconds := func(s string) time.Duration {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0
		}
		return time.Duration(f * float64(time.Second))
	}
	return seconds(a), seconds(b)
}
