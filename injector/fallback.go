package injector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Fallback tries access methods, one after the other: Next returns the probe of the next one that works, and
// Unheard goes past a probe that does not answer. What stopped one decides whether the next is worth trying, and for
// how long: a kubelet that starts no pod starts no ephemeral container either, but may still serve exec.
type Fallback struct {
	Methods []Method
	// Silent says that the node's lease has expired or that its runtime is down: it will hardly start anything.
	Silent bool
	// Start is how long to wait for a probe to start, 0 = what suits method and node.
	Start time.Duration
	// Options says what an attempt is to put on the node; Start and Idle are filled in here. It is called before each.
	Options func(Try) Options
	// Alive reports whether the node has shown any sign of life since the first method was tried. It is called when no
	// method worked, before a method that was given up early is tried again with its full time.
	Alive func() bool
	// Fatal returns the error that ends the run where no other method can help, else nil.
	Fatal func(error) error

	Failed func(method string, err error) // is called after each attempt that put no probe there

	tried    int // how many of Methods
	before   []attempt
	failures []Failure
}

// Try is an attempt that begins.
type Try struct {
	Method  string
	After   []Failure     // the methods that did not work before it
	GivesUp time.Duration // how long a node that does not react at all is waited for
}

// Placed is a probe that runs on the node.
type Placed struct {
	Method  string
	Session *Session
	Took    time.Duration
	Failed  []Failure // the methods before it
	Last    bool      // there is no method left to try

	image string // that the method was to start
}

// Failure is an access method that did not work, or was not tried.
type Failure struct {
	Method string
	Skip   string       // why it was not tried, "" = it was
	Reason facts.Reason // of the method before it, for which it was not tried
	Err    error        // why it did not work
	Lost   bool         // the probe ran, and no answer of it came
}

// attempt is what an attempt that failed says about the next.
type attempt struct {
	method string
	reason facts.Reason
	waited bool   // nothing refused it: its time was over
	early  bool   // it was given up before the longest it may take
	again  bool   // it was the second attempt
	mute   string // the image that ran and did not answer, "" = none did
}

// Next puts a probe on the node by the next method that works. It returns nil where none is left; Failures says why.
func (f *Fallback) Next(ctx context.Context) (*Placed, error) {
	for ctx.Err() == nil {
		m, left := f.next()
		if !left {
			break
		}
		limits := f.limits(m)
		if limits.skip != "" {
			f.failures = append(f.failures, Failure{Method: m.Name, Skip: limits.skip, Reason: limits.because})
			continue
		}
		if p, err := f.try(ctx, m, limits); p != nil || err != nil {
			return p, err
		}
	}
	if len(f.failures) == 0 { // else the run passes for one that asked the node
		f.failures = append(f.failures,
			Failure{Method: f.Methods[0].Name, Err: fmt.Errorf("not tried: %w", context.Cause(ctx))})
	}
	return nil, nil
}

// next is the method to try now, false = none is left.
func (f *Fallback) next() (m Method, left bool) {
	if f.tried == len(f.Methods) {
		again, worth := secondAttempt(f.Methods, f.before)
		if !worth || !f.Alive() {
			return Method{}, false
		}
		if first := starterOf(f.before); again.Name == first.method {
			first.early = false
		}
		f.failures = slices.DeleteFunc(f.failures, func(x Failure) bool { return x.Method == again.Name })
		f.Methods = append(slices.Clip(f.Methods), again)
	}
	f.tried++
	return f.Methods[f.tried-1], true
}

// try makes one attempt; nil = it failed.
func (f *Fallback) try(ctx context.Context, m Method, limits limits) (*Placed, error) {
	began := time.Now()
	opts := f.Options(Try{Method: m.Name, After: f.failures, GivesUp: limits.silence(m)})
	opts.Start, opts.Idle, opts.Again = limits.start, limits.idle, m.again
	if m.again { // what the first attempt made may still be ending
		opts.Run = NewRunID()
	}
	placing, end := trace.Span(ctx, "put a probe on the node", "method", m.Name)
	session, err := m.Open(placing, opts)
	end()
	if err == nil {
		first := starterOf(f.before)
		last := f.tried == len(f.Methods) && (first == nil || !first.early)
		return &Placed{Method: m.Name, Session: session, Took: time.Since(began), Failed: f.failures, Last: last,
			image: opts.Image}, nil
	}
	if fatal := f.Fatal(err); fatal != nil {
		return nil, fatal
	}
	f.Failed(m.Name, err)
	f.before = append(f.before, attemptOf(m, err, time.Since(began), limits))
	f.failures = append(f.failures, Failure{Method: m.Name, Err: err})
	return nil, nil
}

// Unheard says that a probe ran of which no answer came, and why: Next goes on with the method after its own.
func (f *Fallback) Unheard(p *Placed, err error) {
	a := attempt{method: p.Method, mute: p.image}
	if pe, ok := errors.AsType[*PlacementError](err); ok {
		a.reason = pe.Reason
	}
	f.before = append(f.before, a)
	f.failures = append(f.failures, Failure{Method: p.Method, Err: err, Lost: true})
}

// Failures are the methods that did not work, or were not tried.
func (f *Fallback) Failures() []Failure { return f.failures }

func attemptOf(m Method, err error, took time.Duration, limits limits) attempt {
	a := attempt{method: m.Name, again: m.again}
	if pe, ok := errors.AsType[*PlacementError](err); ok {
		a.reason, a.waited = pe.Reason, pe.Waited
	}
	a.early = a.waited && limits.idle > 0 && took < limits.start
	return a
}

// How long to wait for a probe to start unless the user chose. A healthy node takes a second. A node whose
// kubelet has not renewed its lease for 40 s, or has not reached its runtime for 30 s, will hardly start
// anything, and the user is waiting.
const (
	StartUsual  = 40 * time.Second
	startSilent = 10 * time.Second
	// With other methods left, less will do. A second of silence is usual; eight are not.
	startDoubted = 5 * time.Second
	idleUsual    = 8 * time.Second
	// On a node that starts nothing, exec gets this long in each of at most two containers: a kubelet that
	// serves exec takes a fraction of a second.
	startExec = 2 * time.Second
)

// limits are how long a method is given to start a probe, or why it is not tried.
type limits struct {
	start   time.Duration // 0 = what an uploaded probe takes
	idle    time.Duration // how long nothing at all may happen, 0 = as long
	skip    string
	because facts.Reason
}

// limits of one method. Where the user said how long to wait, nothing is given up earlier.
func (f *Fallback) limits(m Method) limits {
	l := limitsOf(m, len(f.Methods) > 1, f.before, f.Silent)
	if f.Start > 0 {
		l.start, l.idle = f.Start, 0
	}
	return l
}

// limitsOf decides about one method from how those before it failed: the same may stop this one, and an
// ephemeral container that never starts cannot be removed from its pod.
func limitsOf(m Method, others bool, before []attempt, silent bool) limits {
	l := usualLimits(m, others, silent)
	if m.again || m.needs() == needsLogin { // which asks neither the API nor a kubelet
		return l
	}
	for _, a := range before {
		switch {
		case methodCalled(a.method).needs == needsExec && a.waited: // it got seconds: what is started may take longer
			continue
		case a.reason == facts.ReasonAPI:
			l.skip = "it leads through the API server too, which fails"
		case a.reason == facts.ReasonKubelet && a.waited && m.needs() == needsExec:
			l.start = startExec // a kubelet that gets no new pods may still serve those it has
			continue
		case a.reason == facts.ReasonKubelet && a.waited:
			l.skip = "it needs the same kubelet, which has started nothing"
		case a.reason == facts.ReasonRuntime && a.waited:
			l.skip = "it needs the same container runtime, which has started nothing"
		case a.reason == facts.ReasonAttach:
			l.skip = "it leads through the kubelet's port 10250 too"
		case a.reason == facts.ReasonUnasked:
			l.skip = "it leads through the same kubelet, which cannot ask the API server whether it is allowed"
		case a.reason == facts.ReasonImage && methodCalled(m.Name).Stays:
			l.skip = "it needs the same image"
		case a.mute != "" && methodCalled(a.method).Pods && methodCalled(m.Name).Stays:
			l.skip = fmt.Sprintf("image %s ran in a pod and did not answer as a probe; "+
				"an ephemeral container could not be removed again", a.mute)
		default:
			continue
		}
		l.because = a.reason
		break
	}
	return l
}

// silence is how long a method waits where nothing at all happens.
func (l limits) silence(m Method) time.Duration {
	switch {
	case m.needs() == needsLogin:
		return connectLimit
	case l.idle > 0:
		return min(l.idle, l.start)
	case m.needs() != needsExec:
		return l.start
	case m.again:
		return cmp.Or(l.start, replyLimit)
	}
	return maxSilent * cmp.Or(l.start, replyLimit)
}

func usualLimits(m Method, others, silent bool) limits {
	switch exec := m.needs() == needsExec; {
	case m.again && exec:
		return limits{start: startSilent}
	case m.again:
		return limits{start: StartUsual}
	case exec && silent && others:
		return limits{start: startExec}
	case exec || m.needs() == needsLogin:
		return limits{}
	case silent && others:
		return limits{start: startDoubted}
	case silent:
		return limits{start: startSilent}
	case others:
		return limits{start: StartUsual, idle: idleUsual}
	}
	return limits{start: StartUsual}
}

// starterOf is the first attempt of a method that starts a container; nil = there was none.
func starterOf(before []attempt) *attempt {
	for i, a := range before {
		if methodCalled(a.method).needs == needsStart {
			return &before[i]
		}
	}
	return nil
}

// secondAttempt is the method to try again where none has worked and the first that starts a
// container was given up early: a node that is only slow is given the full time now. Before
// that, exec is tried again: it takes the same kubelet and runtime, and little of either.
// Where it hangs for so long, they do, and nothing starts.
func secondAttempt(methods []Method, before []attempt) (m Method, worth bool) {
	first := starterOf(before)
	if first == nil || !first.early {
		return Method{}, false
	}
	last := attempt{waited: true} // exec may not have been tried, as it takes the same runtime
	for _, a := range before {
		if methodCalled(a.method).needs == needsExec {
			last = a
		}
	}
	m = methods[slices.IndexFunc(methods, func(m Method) bool { return m.Name == first.method })]
	if i := slices.IndexFunc(methods, func(m Method) bool { return m.needs() == needsExec }); i >= 0 && last.waited {
		m = methods[i]
	}
	m.again = true
	return m, m.Name != last.method || !last.again
}
