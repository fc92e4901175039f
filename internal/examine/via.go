package examine

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// ViaAuto is the value of --via that represents all of injector.FallbackNames.
const ViaAuto = "auto"

// ViaWords are the values of --via.
func ViaWords() []string { return append([]string{ViaAuto}, injector.MethodNames()...) }

// ViaUsage describes the values of --via for help and messages, without the access methods that a verb refuses.
func ViaUsage(refused ...string) string {
	may := slices.DeleteFunc(injector.MethodNames(), func(m string) bool { return slices.Contains(refused, m) })
	alone := slices.DeleteFunc(slices.Clone(may), isFallback)
	listed := slices.DeleteFunc(may, func(m string) bool { return !isFallback(m) })
	return "auto, " + strings.Join(alone, ", ") + ", or a list of " + strings.Join(listed, ", ")
}

// fallbacks returns the access methods to try for a value of --via, in that order. For a word that does not put a probe
// on the node through the cluster, it returns none.
func fallbacks(via string) []string {
	if via == ViaAuto {
		return injector.FallbackNames()
	}
	return slices.DeleteFunc(strings.Split(via, ","), func(name string) bool { return !isFallback(name) })
}

func isFallback(method string) bool { return slices.Contains(injector.FallbackNames(), method) }

// validateVia rejects a value of --via that is neither one word nor a list.
func validateVia(via string) error {
	words, typed := ViaWords(), strings.Split(via, ",")
	for i, name := range typed {
		switch {
		case !slices.Contains(words, name):
			return ui.BadUsage("unknown access method %q%s; --via takes %s", name, suggest.DidYouMean(name, words), ViaUsage())
		case slices.Contains(typed[:i], name):
			return ui.BadUsage("--via names %s twice: name each access method once", name)
		case len(typed) > 1 && !isFallback(name):
			return ui.BadUsage("--via %s cannot be part of a list: leave it out, or use it alone", name)
		}
	}
	return nil
}
