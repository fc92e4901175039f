package facts

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Facts about images that a node cannot pull, in pods-start and calico-pod.
const (
	Refusal    probe.Fact = "refusal"    // why the image is missing: one of the Refused words
	Registries probe.Fact = "registries" // list of the registries that hold the images
	Images     probe.Fact = "images"     // list of the images
)

// Values of the fact Refusal.
const (
	RefusedUnresolved   = "unresolved"   // the node cannot resolve the registry's name
	RefusedUnreachable  = "unreachable"  // no connection to the registry opens, or connections break
	RefusedProxy        = "proxy"        // the runtime's configured proxy is unreachable or rejects the request
	RefusedUntrusted    = "untrusted"    // the node does not trust the registry's certificate
	RefusedPlain        = "plain"        // the registry uses HTTP, but the runtime uses HTTPS
	RefusedLimited      = "limited"      // the registry has received too many requests from this address or account
	RefusedUnauthorized = "unauthorized" // the registry requires a login, or rejects the one it got
	RefusedFailing      = "failing"      // the registry has an internal error
	RefusedAbsent       = "absent"       // the registry does not have the image
)

// refusals are tried in this order. The patterns match errors from Go (net, net/http, crypto/x509), containerd
// (core/remotes/docker, core/remotes/errors), containers/image and the registries' API. The rate limit comes before the
// login error, because its message contains both. Network errors come before both, because the login request uses the
// network.
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

// nameOfImage matches the parts of a message that a tenant may have chosen: an image name in
// quotes, in a URL, or without either.
var nameOfImage = lazy.New(`"[^"]*"|\S*/\S*`)

// PullFailed returns the reason why an image could not be pulled, according to the runtime. The reason is one of the
// Refused words, or "" if no pattern matches the message. It ignores the image's name, because the runtime only
// quotes it.
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

// RegistryOf returns the registry of an image name.
func RegistryOf(image string) string {
	host, _, slash := strings.Cut(image, "/")
	if !slash || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "docker.io"
	}
	return host
}

// RefusedByWay reports whether the problem is the node's path to the registry, so that pulling any image fails.
func RefusedOnPath(refusal string) bool {
	return slices.Contains([]string{RefusedUnresolved, RefusedUnreachable, RefusedProxy}, refusal)
}
