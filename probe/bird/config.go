package bird

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
)

// Config holds the parts of a configuration file that checks need. It never contains a password.
type Config struct {
	RouterID  string
	Protocols int      // of all kinds
	Peers     []string // names of the BGP protocols
}

var (
	routerLine   = regexp.MustCompile(`^\s*router\s+id\s+([0-9.]+)\s*;`)
	protocolLine = regexp.MustCompile(`^\s*protocol\s+(\w+)\s*(\w*)`)
)

// ReadConfig parses a configuration in the style of confd, in which each statement begins on a new line.
func ReadConfig(r io.Reader) (Config, error) {
	var c Config
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := routerLine.FindSubmatch(lines.Bytes()); m != nil {
			c.RouterID = string(m[1])
		}
		m := protocolLine.FindSubmatch(lines.Bytes())
		if m == nil {
			continue
		}
		c.Protocols++
		if string(m[1]) == "bgp" {
			c.Peers = append(c.Peers, string(m[2]))
		}
	}
	if err := lines.Err(); err != nil {
		return Config{}, fmt.Errorf("reading BIRD's configuration: %w", err)
	}
	return c, nil
}
