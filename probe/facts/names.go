package facts

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// NoNames is the DNS server that did not answer a program of the node that needed an image, ADDRESS:PORT. It is "a
// resolver" if the message does not name it.
const NoNames probe.Fact = "no_names"

// lookedUp matches Go's error for a name without an answer (net, DNSError). A negative answer (no such name) does not
// match: that is a problem of the name.
var lookedUp = lazy.New(`lookup [\w.-]+(?: on ([\[\]0-9A-Fa-f.:]+))?: ` +
	`(?:read udp [^ ]+: i/o timeout|read udp [^ ]+: read: connection refused|i/o timeout|server misbehaving|` +
	`Temporary failure in name resolution|dial udp [^ ]+: connect: )`)

// NameServerSilent returns the DNS server in a message that did not answer, "" if the message is about something else.
func NameServerSilent(message string) string {
	m := lookedUp.FindStringSubmatch(message)
	switch {
	case m == nil:
		return ""
	case m[1] == "":
		return "a resolver"
	}
	return m[1]
}
