package facts

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// NoNames is the DNS server, as ADDRESS:PORT, that did not answer the node during an image pull. It is "a resolver" if
// the message does not name the server.
const NoNames probe.Fact = "no_names"

// lookedUp matches the error that Go reports if the lookup of a name got no answer (net, DNSError). It does not match
// a negative answer (no such name), because then the name itself is the problem.
var lookedUp = lazy.New(`lookup [\w.-]+(?: on ([\[\]0-9A-Fa-f.:]+))?: ` +
	`(?:read udp [^ ]+: i/o timeout|read udp [^ ]+: read: connection refused|i/o timeout|server misbehaving|` +
	`Temporary failure in name resolution|dial udp [^ ]+: connect: )`)

// NameServerSilent returns the DNS server that did not answer according to a message. It returns ""
// if the message has another topic.
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
