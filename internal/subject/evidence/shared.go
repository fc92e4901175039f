package evidence

import (
	_ "embed"
	"slices"
	"strconv"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe/facts"
)

//go:embed fixes.md
var fixesText string

//go:embed advice.md
var adviceText string

// Shared returns what Markdown files of all subjects can use by name: selections, weights, covers, words and fixes.
var Shared = sync.OnceValue(func() causefile.Shared {
	fixes, err := causefile.Fixes(fixesText)
	if err != nil {
		panic(err) // embedded: a test parses it
	}
	advice, err := causefile.Advice(adviceText)
	if err != nil {
		panic(err)
	}
	return causefile.Shared{
		Selections: selections, Least: minArgs, Weights: weights, Covers: covers, Args: args, Fixes: fixes,
		Advice: advice,
		Words:  map[string]map[string]string{"refusal": RefusedWords},
	}
})

type findings = []diagnose.Finding

// selections holds the findings that several causes look for, by name; they may take arguments.
var selections = map[string]causefile.SelectionFunc{
	"starved":           func(f diagnose.Findings, _ ...string) findings { return Starved(f) },
	"kubelet-says":      KubeletSaid,
	"waiting-pods":      WaitingPods,
	"obstructed":        func(f diagnose.Findings, of ...string) findings { pods, _ := Obstructed(f, of...); return pods },
	"calico-ends":       LogLines,
	"calico-writes":     Writes,
	"service-ends":      ofFirst(ServiceEnds),
	"service-writes":    ofFirst(ServiceWrites),
	"kube-ends":         func(f diagnose.Findings, of ...string) findings { return kubeEnds(f, of[0]) },
	"kube-writes":       ofFirst(kubeWrites),
	"kernel-writes":     KernelSays,
	"ends-unseen":       func(f diagnose.Findings, of ...string) findings { return endsUnseen(f, of[0]) },
	"kubelet-here":      func(f diagnose.Findings, of ...string) findings { return KubeletHere(f).kind(of[0]) },
	"neighbours":        neighbours,
	"from-outside":      fromOutside,
	"not-placed":        func(f diagnose.Findings, of ...string) findings { return NotPlaced(f, facts.Reason(of[0])) },
	"network-not-ready": func(f diagnose.Findings, _ ...string) findings { return NotReadyNetwork(f) },
	"bird": func(f diagnose.Findings, of ...string) findings {
		return BirdOf(f, of[0], familyOf(of[1:]))
	},
	"fine":             fine,
	"felix-reason":     func(f diagnose.Findings, of ...string) findings { return OfLiveness(f, of[0]) },
	"silent-here":      func(f diagnose.Findings, _ ...string) findings { return SilentAtHome(f) },
	"kubelet-answers":  func(f diagnose.Findings, _ ...string) findings { return kubeletAnswers(f) },
	"last-error":       func(f diagnose.Findings, _ ...string) findings { return lastError(f) },
	"init-by-api":      func(f diagnose.Findings, _ ...string) findings { return InitByAPI(f) },
	"cut-short":        func(f diagnose.Findings, _ ...string) findings { return CutShort(f) },
	"pods-started":     func(f diagnose.Findings, _ ...string) findings { return StartsPods(f) },
	"memory-short":     func(f diagnose.Findings, _ ...string) findings { short, _ := ShortOfMemory(f); return short },
	"memory-pressure":  func(f diagnose.Findings, _ ...string) findings { _, p := ShortOfMemory(f); return p },
	"killed-of-calico": func(f diagnose.Findings, _ ...string) findings { return KilledForMemory(f) },
	"died-at":          DiedAs,
	"lost-towards":     func(f diagnose.Findings, of ...string) findings { return LostTowards(f, of[0]) },
	"over-pods":        func(f diagnose.Findings, _ ...string) findings { return lostOverPods(f) },
	"unreached":        func(f diagnose.Findings, _ ...string) findings { return Unreached(f) },
	// nodes-alive, nodes-silent: the first ping of each other node with or without an answer.
	"nodes-alive":  func(f diagnose.Findings, _ ...string) findings { _, of, seen := Pinged(f); return firsts(of, seen) },
	"nodes-silent": func(f diagnose.Findings, _ ...string) findings { of, _, seen := Pinged(f); return firsts(of, seen) },
	// bad-paths FAMILY CHECK...: 0 for both families, and lists of checks by their names.
	"bad-paths": func(f diagnose.Findings, of ...string) findings {
		return BadPaths(f, familyOf(of[:1]), checksOf(of[1:]))
	},
}

// minArgs has the minimum number of arguments of each selection that needs any.
var minArgs = map[string]int{
	"service-ends": 1, "service-writes": 1, "kube-ends": 1, "kube-writes": 1, "ends-unseen": 1, "kubelet-here": 1,
	"neighbours": 1, "from-outside": 2, "not-placed": 1, "bird": 1, "felix-reason": 1, "lost-towards": 1, "bad-paths": 1,
}

// fine returns the findings of some checks if each has an answer and all answers are good.
func fine(f diagnose.Findings, checks ...string) findings {
	var out findings
	for _, check := range checks {
		if !f.Fine(check) {
			return nil
		}
		out = append(out, f.Of(check)...)
	}
	return out
}

// ofFirst adapts a function whose first argument is a service or a component.
func ofFirst(of func(diagnose.Findings, string, ...string) findings) func(diagnose.Findings, ...string) findings {
	return func(f diagnose.Findings, args ...string) findings { return of(f, args[0], args[1:]...) }
}

// neighbours returns the findings of neighbours that got no answer from this node ("silent"), or of neighbours that got
// an answer ("heard").
func neighbours(f diagnose.Findings, of ...string) findings {
	silent, heard := Witnesses(f)
	return map[string]findings{"silent": silent, "heard": heard}[of[0]]
}

// fromOutside returns the neighbours' results for a port of this node: "open", "refused" or "silent".
func fromOutside(f diagnose.Findings, of ...string) findings {
	port, err := strconv.ParseFloat(of[1], 64)
	if err != nil {
		return nil
	}
	got := FromOutside(f, port)
	return map[string]findings{"open": got.Open, "refused": got.Refused, "silent": got.Silent}[of[0]]
}

// familyOf parses the first argument as an address family; 0 means both.
func familyOf(args []string) int {
	if len(args) == 0 {
		return 0
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0
	}
	return n
}

// weights holds the weights that depend on the other findings.
var weights = map[string]causefile.WeightFunc{
	"said":    func(_ diagnose.Findings, of findings) []diagnose.Clue { return Said(of) },
	"written": Written,
	// beside hints at a pod that answers on the node of silent servers.
	"beside": func(f diagnose.Findings, dead findings) []diagnose.Clue { return diagnose.Hints(podBeside(f, dead)) },
	"ended":  ended,
}

// covers holds the checks that fail because of a cause, by the name of the set.
var covers = map[string]causefile.CoverFunc{
	"not-started":       causefile.Always(NotStarted),
	"calico-down":       causefile.Always(CalicoDown),
	"felix-ill":         causefile.Always(FelixIll),
	"kubelet-gone":      causefile.Always(KubeletGone),
	"pods-unconnected":  causefile.Always(PodsUnconnected),
	"without-datastore": causefile.Always(WithoutDatastore),
	"names-fail":        causefile.Always(NamesFail),
	"serviceless":       causefile.Always(Serviceless),
	"pod-paths":         causefile.Always(diagnose.Covers(PodPaths...)),
	"service-paths":     causefile.Always(diagnose.Covers(ServicePaths...)),
	"node-paths":        causefile.Always(diagnose.Covers(NodePaths...)),
	"path-checks":       causefile.Always(diagnose.Covers(PathChecks...)),
	"over-pods":         func(f diagnose.Findings, _ ...string) []diagnose.Cover { return OverPods(f) },
	"unready":           func(f diagnose.Findings, _ ...string) []diagnose.Cover { return unready(f) },
	"about-service":     func(_ diagnose.Findings, names ...string) []diagnose.Cover { return AboutService(names...) },
	"starved": func(f diagnose.Findings, _ ...string) []diagnose.Cover {
		return diagnose.Covers(diagnose.ChecksOf(Starved(f))...)
	},
	// path-follows FAMILY PEER: both may be missing.
	"path-follows": func(f diagnose.Findings, args ...string) []diagnose.Cover {
		args = append(slices.Clone(args), "", "")
		return PathFollows(f, familyOf(args), args[1])
	},
	// kept-down OBSTACLE...: the consequences for pods that an obstacle keeps from starting.
	"kept-down": func(f diagnose.Findings, of ...string) []diagnose.Cover {
		pods, _ := Obstructed(f, of...)
		return KeptDown(pods)
	},
	// unpulled REFUSAL...: pods whose image a registry refused for one of these reasons.
	"unpulled": func(f diagnose.Findings, of ...string) []diagnose.Cover {
		return Unpulled(f, func(refusal string) bool { return slices.Contains(of, refusal) })
	},
}

// args holds the values of a fix that several causes share.
var args = map[string]causefile.Args{
	// method-for FAMILY INTERNALIP TARGET: the target of ip-autodetect may be missing, if no probe ran on the node.
	"method-for": {
		Names: []string{"variable", "field", "since", "method", "setting"},
		Of: func(f diagnose.Findings, of ...string) map[string]diagnose.Arg {
			of = append(slices.Clone(of), "", "", "")
			auto, _ := diagnose.Answer(f, link.IPAutodetect.ID, of[2])
			return MethodFor(familyOf(of), of[1], auto)
		},
	},
}
