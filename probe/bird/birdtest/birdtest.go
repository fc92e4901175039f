// Package birdtest is a fake BIRD for tests. Serve answers on a UNIX socket with a recording from a real BIRD.
// The tests of package bird create the recordings.
package birdtest

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/bird"
)

// Dial opens a session with the process that listens on path.
func Dial(ctx context.Context, path string) (*bird.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return bird.Talk(ctx, conn)
}

// Serve listens on path and answers every session from the recording. If a command was not recorded, Serve
// answers with BIRD's syntax error.
func Serve(t testing.TB, path, recording string) {
	t.Helper()
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	greeting, answers := split(string(text))
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go answer(c, greeting, answers)
		}
	}()
}

// Socket returns a short path for a socket, because a UNIX address has at most 107 bytes.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bird")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "bird.ctl")
}

func answer(c net.Conn, greeting string, answers map[string]string) {
	defer c.Close()
	if _, err := c.Write([]byte(greeting)); err != nil {
		return
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		reply, ok := answers[lines.Text()]
		if !ok {
			reply = "9001 syntax error, unexpected CF_SYM_UNDEFINED\n"
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}

// split parses a recording. It starts with the greeting. Each command follows after "> ", with the lines of its reply.
func split(text string) (greeting string, answers map[string]string) {
	replies := map[string]*strings.Builder{"": {}}
	command := ""
	for line := range strings.Lines(text) {
		if c, ok := strings.CutPrefix(line, "> "); ok {
			command = strings.TrimSpace(c)
			replies[command] = &strings.Builder{}
			continue
		}
		replies[command].WriteString(line)
	}
	answers = map[string]string{}
	for command, lines := range replies {
		answers[command] = lines.String()
	}
	return answers[""], answers
}
