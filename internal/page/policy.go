package page

import (
	"crypto/sha256"
	_ "embed" // the style and the script
	"encoding/base64"
)

//go:embed style.css
var style string

//go:embed script.js
var script string

// Policy is the Content-Security-Policy of a page. With it, the browser loads nothing and runs only our script, even if
// a node's text breaks out of the template. A file contains the policy in a meta element. Over HTTP the policy is also
// sent as a header.
var Policy = "default-src 'none'; style-src 'sha256-" + sum(style) + "'; script-src 'sha256-" + sum(script) +
	"'; base-uri 'none'; form-action 'none'"

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(s[:])
}
