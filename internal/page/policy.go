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

// Policy lets a browser load nothing, and run nothing but the one script, whatever a node says. In a file it is a
// meta element, over HTTP a header too.
var Policy = "default-src 'none'; style-src 'sha256-" + sum(style) + "'; script-src 'sha256-" + sum(script) +
	"'; base-uri 'none'; form-action 'none'"

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(s[:])
}
