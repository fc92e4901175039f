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

// An Arg is a value of this run that a fix names. A sentence shows it as it was seen. A
// command has it only where it is what the command expects, and no such value has a
// character that means something to a shell, to JSON or to the options of a program; in place
// of any other value stands a word in capitals for the reader to replace. So a
// command needs no quotes, and is the same behind ssh, where a second shell reads it.
// The constructors are the only way to make one.
type Arg struct{ said, typed string }

// Said is the value in a sentence.
func (a Arg) Said() string { return a.said }

// Typed is the value in a command.
func (a Arg) Typed() string { return a.typed }

// Node, Namespace, Pod and DaemonSet are names of objects of Kubernetes.
func NodeArg(s string) Arg { return CheckedArg(s, IsName(s), "NODE") }

func NamespaceArg(s string) Arg { return CheckedArg(s, IsName(s), "NAMESPACE") }

func PodArg(s string) Arg { return CheckedArg(s, IsName(s), "POD") }

func daemonSetArg(s string) Arg { return CheckedArg(s, IsName(s), "DAEMONSET") }

// AddressArg is an IP address.
func AddressArg(s string) Arg {
	_, err := netip.ParseAddr(s)
	return CheckedArg(s, err == nil && IsWord(s), "ADDRESS") // a zone may be any text
}

// BlockArg is a range of addresses.
func BlockArg(s string) Arg { return CheckedArg(s, IsBlock(s), "BLOCK") }

// BlockNameArg is how Calico writes a range of addresses in the name of an object.
func BlockNameArg(s string) Arg {
	dashed := strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(s)
	return CheckedArg(dashed, IsBlock(s), "BLOCK-WITH-DASHES")
}

// FileArg is the path of a file or folder.
func FileArg(s string) Arg {
	return CheckedArg(s, IsWord(s) && path.IsAbs(s) && path.Clean(s) == s, "FILE")
}

// Device, Image and Sysctl are names that have no form of their own.
func DeviceArg(s string) Arg { return CheckedArg(s, IsWord(s), "DEVICE") }

func ImageArg(s string) Arg { return CheckedArg(s, IsWord(s), "IMAGE") }

func SysctlArg(s string) Arg { return CheckedArg(s, IsWord(s), "SYSCTL") }

// NumberArg is a positive number without fraction; 0 is one that is not known.
func NumberArg(n float64) Arg {
	return CheckedArg(fmt.Sprintf("%.0f", n), n >= 1 && n < 1e15, "NUMBER")
}

// NodesWord is what a node alone says. A command that changes every node has a word in place of it.
func NodesWord(s, otherwise string) Arg { return Arg{probe.Line(s), otherwise} }

// ProcessArg is the number of a process.
func ProcessArg(pid float64) Arg {
	return CheckedArg(fmt.Sprintf("%.0f", pid), pid >= 1 && pid < 1e15, "PID")
}

// OwnArg is text of this program's, made of constants and of what was checked.
func OwnArg(text string) Arg { return Arg{text, text} }

// CheckedArg is a value, and what a command has of it: another word unless it is good.
func CheckedArg(s string, good bool, otherwise string) Arg {
	if !good {
		return Arg{cmp.Or(probe.Line(s), otherwise), otherwise}
	}
	return Arg{s, s}
}

var (
	// The names that Kubernetes takes for objects (RFC 1123).
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// What begins with a dash would be an option.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%][A-Za-z0-9_./:@%+-]*$`)
)

func IsName(s string) bool { return len(s) <= 253 && objectName.MatchString(s) }

func IsWord(s string) bool { return len(s) <= 253 && plainWord.MatchString(s) }

func IsBlock(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// placeholder is the name of an Arg in a text. JSON and JSONPath have other things in braces.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// filled puts args into a text in one pass, so that nothing of a value is taken for a name.
func filled(text string, args map[string]Arg, as func(Arg) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		arg, known := args[name[1:len(name)-1]]
		if !known {
			return name
		}
		return as(arg)
	})
}

// inSentence and inCommand are the two ways in which an Arg is shown.
func inSentence(a Arg) string { return a.said }

func inCommand(a Arg) string { return a.typed }

// Placeholders are the names of Args in a text.
func Placeholders(text string) []string {
	var out []string
	for _, name := range placeholder.FindAllString(text, -1) {
		out = append(out, strings.Trim(name, "{}"))
	}
	return out
}

// IsCommonArg reports whether every fix may have an Arg of this name, which no case gives.
func IsCommonArg(name string) bool {
	_, common := known(Findings{})[name] // {together} is empty where the runtime is a service of its own
	return common
}

// Args are the names that a fix of the rule has for its cases to fill in, by a case's Args.
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
