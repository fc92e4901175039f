// Package lazy compiles regular expressions at their first use. The client and the probe contain hundreds of
// expressions, but most runs use only a few. Compiling all of them took a quarter of the startup time.
package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used.
type Regexp struct{ get func() *regexp.Regexp }

// inTest is true if this program is a test. A test compiles expressions immediately, so an
// invalid expression fails every test.
var inTest = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")

// New returns an expression. The expression must be valid.
func New(text string) *Regexp {
	re := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
	if inTest {
		re.get()
	}
	return re
}

// The methods are the same as those of regexp.Regexp.

func (re *Regexp) FindStringSubmatchIndex(s string) []int { return re.get().FindStringSubmatchIndex(s) }
func (re *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return re.get().ReplaceAllStringFunc(s, with)
}

func (re *Regexp) MatchString(s string) bool              { return re.get().MatchString(s) }
func (re *Regexp) FindString(s string) string             { return re.get().FindString(s) }
func (re *Regexp) FindStringIndex(s string) []int         { return re.get().FindStringIndex(s) }
func (re *Regexp) FindStringSubmatch(s string) []string   { return re.get().FindStringSubmatch(s) }
func (re *Regexp) ReplaceAllString(s, with string) string { return re.get().ReplaceAllString(s, with) }
func (re *Regexp) String() string                         { return re.get().String() }
