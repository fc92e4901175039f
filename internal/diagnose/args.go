package diagnose

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// An Arg is a value from this run in a fix. A sentence shows the value unchanged. A command contains the value only if
// it has the expected form, without characters that are special to a shell, to JSON or to a program's options.
// Otherwise the command contains a word in capitals, and the reader must replace it. So a command does not need quotes,
// even after ssh, where a second shell parses it. Only the constructors create an Arg.
type Arg struct{ sentence, command string }

// Said returns the value's form in a sentence.
func (a Arg) Said() string { return a.sentence }

// Typed returns the value's form in a command.
func (a Arg) Typed() string { return a.command }

// NodeArg, NamespaceArg, PodArg and DaemonSetArg return the names of Kubernetes objects.
func NodeArg(s string) Arg { return CheckedArg(s, IsName(s), "NODE") }

func NamespaceArg(s string) Arg { return CheckedArg(s, IsName(s), "NAMESPACE") }

func PodArg(s string) Arg { return CheckedArg(s, IsName(s), "POD") }

func daemonSetArg(s string) Arg { return CheckedArg(s, IsName(s), "DAEMONSET") }

// AddressArg returns an IP address.
func AddressArg(s string) Arg {
	_, err := netip.ParseAddr(s)
	return CheckedArg(s, err == nil && IsWord(s), "ADDRESS") // a zone may be any text
}

// BlockArg returns a range of addresses in CIDR notation.
func BlockArg(s string) Arg { return CheckedArg(s, IsBlock(s), "BLOCK") }

// BlockNameArg returns a range of addresses as Calico writes it in an object's name.
func BlockNameArg(s string) Arg {
	dashed := strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(s)
	return CheckedArg(dashed, IsBlock(s), "BLOCK-WITH-DASHES")
}

// FileArg returns the path of a file or folder.
func FileArg(s string) Arg {
	return CheckedArg(s, IsWord(s) && path.IsAbs(s) && path.Clean(s) == s, "FILE")
}

// Device, Image and Sysctl are names without a fixed form.
func DeviceArg(s string) Arg { return CheckedArg(s, IsWord(s), "DEVICE") }

func ImageArg(s string) Arg { return CheckedArg(s, IsWord(s), "IMAGE") }

func SysctlArg(s string) Arg { return CheckedArg(s, IsWord(s), "SYSCTL") }

// NumberArg returns a positive whole number; 0 means unknown.
func NumberArg(n float64) Arg {
	return CheckedArg(fmt.Sprintf("%.0f", n), n >= 1 && n < 1e15, "NUMBER")
}

// NodesWord returns a value that only the node reports. In a command, the word otherwise replaces it, because the
// command may change every node.
func NodesWord(s, otherwise string) Arg { return Arg{probe.Line(s), otherwise} }

// ProcessArg returns a process ID.
func ProcessArg(pid float64) Arg {
	return CheckedArg(fmt.Sprintf("%.0f", pid), pid >= 1 && pid < 1e15, "PID")
}

// OwnArg returns this program's own text, built from constants and validated values.
func OwnArg(text string) Arg { return Arg{text, text} }

// CheckedArg returns a value for sentences. A command contains the value only if good is true, and otherwise another
// word.
func CheckedArg(s string, good bool, otherwise string) Arg {
	if !good {
		return Arg{cmp.Or(probe.Line(s), otherwise), otherwise}
	}
	return Arg{s, s}
}

var (
	// Valid names of Kubernetes objects (RFC 1123).
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// A leading dash would make it an option.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%][A-Za-z0-9_./:@%+-]*$`)
)

func IsName(s string) bool { return len(s) <= 253 && objectName.MatchString(s) }

func IsWord(s string) bool { return len(s) <= 253 && plainWord.MatchString(s) }

func IsBlock(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// placeholder matches the name of an Arg in a text. JSON and JSONPath also use braces, for other texts.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// filled replaces the names in a text with args in one pass, so a name inside a value is never replaced.
func filled(text string, args map[string]Arg, as func(Arg) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		arg, known := args[name[1:len(name)-1]]
		if !known {
			return name
		}
		return as(arg)
	})
}

// inSentence and inCommand return the two forms of an Arg.
func inSentence(a Arg) string { return a.sentence }

func inCommand(a Arg) string { return a.command }

// Placeholders returns the names of Args in a text.
func Placeholders(text string) []string {
	var out []string
	for _, name := range placeholder.FindAllString(text, -1) {
		out = append(out, strings.Trim(name, "{}"))
	}
	return out
}

// IsCommonArg reports whether every fix may use an Arg with this name without a value from its case.
func IsCommonArg(name string) bool {
	_, common := known(Findings{})[name] // {together} is empty if the runtime is a separate service
	return common
}

// Args returns the names in a rule's fixes for which the rule's cases must set a value in Case.Args.
func (r *Rule) Args() []string {
	var out []string
	for _, text := range slices.Concat(r.Fix.Manifest, r.Fix.Operator) {
		for _, name := range Placeholders(text) {
			if !IsCommonArg(name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
