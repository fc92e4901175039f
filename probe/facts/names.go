package facts

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// NoNames is the DNS server that did not answer a program of the node that wanted an image, ADDRESS:PORT; or
// "a resolver" where it is not named.
const NoNames probe.Fact = "no_names"

// lookedUp is Go's error of a name that nobody answered for (net, DNSError). An answer that there is no such name
// is the name's own matter.
var lookedUp = lazy.New(`lookup [\w.-]+(?: on ([\[\]0-9A-Fa-f.:]+))?: ` +
	`(?:read udp [^ ]+: i/o timeout|read udp [^ ]+: read: connection refused|i/o timeout|server misbehaving|` +
	`Temporary failure in name resolution|dial udp [^ ]+: connect: )`)

// NameServerSilent finds in a message who did not answer for a name, "" where that is not what it is about.
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
