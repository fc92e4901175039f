package ask

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// items maps names to values. It holds the content of one area.
type items map[string]string

// look holds the input that all functions need to read an area.
type look struct {
	ctx   context.Context
	p     *probe.Pass
	h     *probe.Host
	links []kernel.Link
	out   string // the uplink's name
	own   neutral
	net   neutral // also replaces the uplink's name
}

// neutral replaces names that differ between nodes, so that nodes with the same settings have the same texts. Its
// keys are names, and addresses as text.
type neutral map[string]string

// neutralFor returns a node's replacements: for its name, for its addresses, and for its interfaces' addresses.
func neutralFor(p *probe.Pass, links []kernel.Link) neutral {
	n := neutral{}
	host, _ := kernel.ReadProc(p.Host, "sys/kernel/hostname")
	for _, name := range []string{p.Host.Node, strings.TrimSpace(host)} {
		n.add(name, "<node>")
		short, _, _ := strings.Cut(name, ".")
		n.add(short, "<node>")
	}
	for _, t := range p.Of(probe.KindSelf, probe.KindTunnel) {
		if t.Addr.IsValid() && (t.Kind == probe.KindSelf || t.Attrs[probe.AttrOwn] == "true") {
			n[t.Addr.String()] = "<address>"
		}
	}
	for _, l := range links {
		if l.Loopback || l.Kind == "dummy" { // kube-proxy's Service addresses are the same on all nodes
			continue
		}
		for _, a := range l.Addrs {
			n[a.Addr().String()] = "<address>"
		}
		if l.MAC != "" && !node.IsPods(l) { // all pod interfaces have the same MAC
			n[strings.ToLower(l.MAC)] = "<mac>"
		}
	}
	return n
}

// minName is the minimum length of a name to replace, because shorter names occur in other words.
const minName = 2

func (n neutral) add(name, word string) {
	if len(name) >= minName && name != "localhost" {
		n[strings.ToLower(name)] = word
	}
}

// with returns a copy that contains one more name.
func (n neutral) with(name, word string) neutral {
	out := maps.Clone(n)
	out.add(name, word)
	return out
}

var (
	colonWord  = regexp.MustCompile(`[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,}`)
	wordOfText = regexp.MustCompile(`[0-9A-Za-z](?:[0-9A-Za-z.-]*[0-9A-Za-z])?`)
	podDevice  = regexp.MustCompile(`\bcali[0-9a-f]{9,11}\b`)
	uidText    = regexp.MustCompile(`[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}`)
	idText     = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
)

// text replaces the node's own names in a text.
func (n neutral) text(s string) string {
	s = podDevice.ReplaceAllString(s, "cali*")
	s = uidText.ReplaceAllString(s, "<uid>")
	s = idText.ReplaceAllString(s, "<id>")
	s = colonWord.ReplaceAllStringFunc(s, func(word string) string {
		if a, err := netip.ParseAddr(word); err == nil && n[a.String()] != "" {
			return n[a.String()]
		}
		if known := n[strings.ToLower(word)]; known != "" {
			return known
		}
		return word
	})
	return wordOfText.ReplaceAllStringFunc(s, func(word string) string {
		if known := n[strings.ToLower(word)]; known != "" {
			return known
		}
		return word
	})
}

// value returns the value of a setting, without secrets and without the node's own names.
func (n neutral) value(name, value string) string {
	if secretName.MatchString(name) {
		return "(left out)"
	}
	const between = "="
	masked := probe.Masked(name + between + n.text(value))
	if _, rest, ok := strings.Cut(masked, between); ok && strings.HasPrefix(masked, name+between) {
		return rest
	}
	return strings.TrimPrefix(masked, name+between)
}

// secretName matches the names of settings that have secret values, in addition to those that probe.Masked recognises.
var secretName = regexp.MustCompile(`(?i)(^|[._-])(auths?|username|password|passwd|secret|token|credentials?|identitytoken)($|[.\[_-])|staticpodurlheader`)

// shorten cuts a text to at most node.MaxText bytes. It adds a checksum of the whole text, to distinguish texts
// that begin in the same way.
func shorten(text string) string {
	text = probe.OneLine(text)
	if len(text) <= node.MaxText {
		return text
	}
	return probe.Cut(text, node.MaxText-10) + " " + sumOf([]byte(text))
}

// sumOf returns a short checksum.
func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}

// maxSettings is the maximum number of values to read from a configuration. maxDepth is the maximum depth of nesting.
const (
	maxSettings = 600
	maxDepth    = 12
)

// flat puts the values from a decoded configuration into a map: "evictionHard.memory.available" → "100Mi".
func flat(into items, n neutral, name string, value any) {
	flatten(into, n, name, value, 0)
}

func flatten(into items, n neutral, name string, value any, depth int) {
	if len(into) >= maxSettings || depth > maxDepth {
		return
	}
	within := func(key string) string { return strings.TrimPrefix(name+"."+key, ".") }
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, one := range v {
			flatten(into, n, within(key), one, depth+1)
		}
	case []any:
		var words []string
		for i, one := range v {
			switch one.(type) {
			case map[string]any, []any:
				flatten(into, n, within(fmt.Sprint(i)), one, depth+1)
			default:
				words = append(words, fmt.Sprint(one))
			}
		}
		if len(words) > 0 {
			into[name] = n.value(name, strings.Join(words, ", "))
		}
	default:
		into[name] = n.value(name, fmt.Sprint(v))
	}
}

// tomlItems reads the settings in a TOML file line by line. It reads sections, and values in the form in which they are
// written. This is enough to compare files, and does not need a parser.
func tomlItems(into items, n neutral, file string) {
	section, open := "", ""
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if open != "" {
			open += " " + line
		} else if line == "" || strings.HasPrefix(line, "#") {
			continue
		} else if strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
			section = strings.NewReplacer("[", "", "]", "", `"`, "", "'", "").Replace(line)
			continue
		} else {
			open = line
		}
		if strings.Count(open, "[") > strings.Count(open, "]") && len(open) < 4096 {
			continue // a list that spans several lines
		}
		key, value, ok := strings.Cut(open, "=")
		open = ""
		if !ok || len(into) >= maxSettings {
			continue
		}
		name := strings.TrimPrefix(strings.TrimSpace(section)+"."+strings.Trim(strings.TrimSpace(key), `"'`), ".")
		into[name] = n.value(name, strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSpace(value)))
	}
}
