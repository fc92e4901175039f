package facts

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Facts of images that a node cannot pull, of pods-start and of calico-pod.
const (
	Refusal    probe.Fact = "refusal"    // why there is no image: one of the Refused words
	Registries probe.Fact = "registries" // list of the registries that the images are of
	Images     probe.Fact = "images"     // list of the images
)

// Words of the fact Refusal.
const (
	RefusedUnresolved   = "unresolved"   // the registry's name is not resolved on the node
	RefusedUnreachable  = "unreachable"  // no connection to the registry comes about, or none that lasts
	RefusedProxy        = "proxy"        // the proxy that the runtime is configured with is not reached, or refuses
	RefusedUntrusted    = "untrusted"    // the node does not trust the registry's certificate
	RefusedPlain        = "plain"        // the registry speaks HTTP, and the runtime asks by HTTPS
	RefusedLimited      = "limited"      // the registry has answered too many requests of this address or account
	RefusedUnauthorized = "unauthorized" // the registry wants a login, or refuses this one
	RefusedFailing      = "failing"      // the registry has an error of its own
	RefusedAbsent       = "absent"       // the registry has no such image
)

// refusals are asked in order. The words are those of Go's net, net/http and crypto/x509; of containerd
// (core/remotes/docker, core/remotes/errors), containers/image and the registries' API. A limit stands before
// the login that it meets as well, and the network before both: a login is asked for over it.
var refusals = []struct {
	is    string
	words *lazy.Regexp
}{
	{RefusedUnresolved, lazy.New(`no such host|server misbehaving|dial tcp: lookup |[Tt]emporary failure in name resolution`)},
	{RefusedProxy, lazy.New(`proxyconnect tcp: |Proxy Authentication Required`)},
	{RefusedLimited, lazy.New(`429 Too Many Requests|toomanyrequests: `)},
	{RefusedPlain, lazy.New(`server gave HTTP response to HTTPS client|first record does not look like a TLS handshake`)},
	{RefusedUntrusted, lazy.New(`x509: |tls: failed to verify certificate`)},
	{RefusedUnreachable, lazy.New(`dial tcp|io timeout|connection (?:refused|reset)|no route to host|network is unreachable|` +
		`TLS handshake timeout|deadline exceeded|Client\.Timeout exceeded`)},
	{RefusedFailing, lazy.New(`\b50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)`)},
	{RefusedUnauthorized, lazy.New(`40[13] (?:Unauthorized|Forbidden)|pull access denied|no basic auth credentials|` +
		`authentication required|unauthorized: |denied: |insufficient_scope|authorization failed`)},
	{RefusedAbsent, lazy.New(`manifest unknown|name unknown|manifest for .*not found|404 Not Found|not found$`)},
}

// nameOfImage is what a message may hold of a tenant's: an image's name, in quotes, in an address, or bare.
var nameOfImage = lazy.New(`"[^"]*"|\S*/\S*`)

// PullFailed is why an image could not be pulled, by what the runtime says: one of the Refused words, "" where
// its words are none of those. What names the image is no word of the runtime's.
func PullFailed(text string) string {
	text = strings.ReplaceAll(text, "i/o timeout", "io timeout")
	text = strings.TrimSpace(nameOfImage.ReplaceAllString(text, ""))
	for _, r := range refusals {
		if r.words.MatchString(text) {
			return r.is
		}
	}
	return ""
}

// RegistryOf is the registry that an image's name means.
func RegistryOf(image string) string {
	host, _, slash := strings.Cut(image, "/")
	if !slash || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "docker.io"
	}
	return host
}

// RefusedByWay tells whether it is the node's way to the registry that fails, as it does for each image.
func RefusedByWay(refusal string) bool {
	return slices.Contains([]string{RefusedUnresolved, RefusedUnreachable, RefusedProxy}, refusal)
}
