package facts

import "testing"

// TestPullFailed has messages of containerd 1.x and 2.x, CRI-O, dockerd and registries.
func TestPullFailed(t *testing.T) {
	t.Parallel()
	const began = `rpc error: code = Unknown desc = failed to pull and unpack image "docker.io/library/app:1": `
	for text, want := range map[string]string{
		`Back-off pulling image "hub.example/app:1": ErrImagePull: failed to pull and unpack image "hub.example/app:1": failed to resolve image: failed to do request: Head "https://hub.example/v2/app/manifests/1": dial tcp: lookup hub.example on 10.96.0.10:53: server misbehaving`: RefusedUnresolved,
		began + `failed to resolve reference "docker.io/library/app:1": failed to do request: Head "https://registry-1.docker.io/v2/library/app/manifests/1": dial tcp: lookup registry-1.docker.io: no such host`:                                                                       RefusedUnresolved,
		began + `failed to resolve image: failed to do request: Head "https://registry-1.docker.io/v2/library/app/manifests/1": dial tcp 10.9.9.9:443: i/o timeout`:                                                                                                                      RefusedUnreachable,
		began + `failed to resolve image: failed to authorize: failed to fetch anonymous token: Get "https://auth.docker.io/token?scope=x": net/http: TLS handshake timeout`:                                                                                                             RefusedUnreachable,
		began + `failed to resolve image: failed to do request: Head "https://hub.example/v2/": proxyconnect tcp: dial tcp 10.9.9.9:3128: connect: connection refused`:                                                                                                                   RefusedProxy,
		began + `failed to resolve image: failed to do request: Head "https://hub.example:5000/v2/app/manifests/1": http: server gave HTTP response to HTTPS client`:                                                                                                                     RefusedPlain,
		began + `failed to resolve image: failed to do request: Head "https://hub.example/v2/app/manifests/1": tls: failed to verify certificate: x509: certificate signed by unknown authority`:                                                                                         RefusedUntrusted,
		began + `failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/library/app/manifests/sha256:ID: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.`:                                   RefusedLimited,
		`reading manifest 1 in docker.io/library/app: toomanyrequests: You have reached your pull rate limit.`:                                                                                                                                                                           RefusedLimited,
		began + `failed to resolve image: unexpected status from HEAD request to https://hub.example/v2/app/manifests/1: 403 Forbidden`:                                                                                                                                                  RefusedUnauthorized,
		began + `failed to resolve image: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`:                                                                                                          RefusedUnauthorized,
		began + `failed to resolve image: unexpected status from HEAD request to https://hub.example/v2/app/manifests/1: 503 Service Unavailable`:                                                                                                                                        RefusedFailing,
		began + `failed to resolve image: docker.io/library/app:1: not found`:                                                                                                                                                                                                            RefusedAbsent,
		`reading manifest 1 in hub.example/app: manifest unknown`: RefusedAbsent,
		// The owner chooses an image's name, and a store that lacks a blob is not a registry that lacks an image.
		`Back-off pulling image "hub.example/toomanyrequests/x509:dial"`:                                                                    "",
		`failed to resolve image: hub.example/429:manifest: not found`:                                                                      RefusedAbsent,
		began + `failed to extract layer sha256:ID: failed to get reader from content store: content digest sha256:ID: file does not exist`: "",
	} {
		if got := PullFailed(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for image, want := range map[string]string{"app": "docker.io", "team/app:1": "docker.io",
		"quay.io/calico/node:v3.32.1": "quay.io", "localhost/app": "localhost", "hub:5000/app": "hub:5000"} {
		if got := RegistryOf(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
