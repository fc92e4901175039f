package facts

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// NoNames is the DNS server, as ADDRESS:PORT, that did not answer the node during an image pull. It is "a resolver" if
// the message has no server.
const NoNames probe.Fact = "no_names"

// lookedUp matches Go's error for a name without an answer (net, DNSError). A negative answer (no such name) does not
// match: that is a problem of the name.
var lookedUp = lazy.New(`lookup [\w.-]+(?: on ([\[\]0-9A-Fa-f.:]+))?: ` +
	`(?:read udp [^ ]+: i/o timeout|read udp [^ ]+: read: connection refused|i/o timeout|server misbehaving|` +
	`Temporary failure in name resolution|dial udp [^ ]+: connect: )`)

// NameServerSilent returns the unresponsive DNS server in a message, or "" if the message has another topic.
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
