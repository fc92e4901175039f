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

// Fallback tries access methods in order. Next returns the probe of the next method that works. NoAnswer moves past a
// probe that does not answer. Each failure decides whether to try the next method, and for how long. A kubelet that
// cannot start a pod cannot start an ephemeral container, but may still serve exec.
type Fallback struct {
	Methods []Method
	// Silent is set if the node's lease has expired or its runtime is down. Such a node is unlikely to start a container.
	Silent bool
	// Start is the time limit for a probe to start. 0 = the default for the method and node.
	Start time.Duration
	// Options is called before each attempt and returns its options. Fallback sets Start and Idle.
	Options func(Try) Options
	// Alive reports whether the node has shown any sign of life since the first attempt. If no method has worked, it is
	// called before a method that gave up early gets a second attempt with its full time.
	Alive func() bool
	// Fatal returns an error to end the run if no other method can help, otherwise nil.
	Fatal func(error) error

	Failed func(method string, err error) // called after each failed attempt

	tried    int // number of methods tried
	before   []attempt
	failures []Failure
}

// Try describes an attempt before it starts.
type Try struct {
	Method  string
	After   []Failure     // the methods that failed before it
	GivesUp time.Duration // time limit for a silent node
}

// Placed is a probe that runs on the node.
type Placed struct {
	Method  string
	Session *Session
	Took    time.Duration
	Failed  []Failure // the methods that failed before it
	Last    bool      // no method is left to try

	image string // the image that the method should start
}

// Failure is an access method that did not work, or was not tried.
type Failure struct {
	Method string
	Skip   string       // why it was not tried; "" = it was tried
	Reason facts.Reason // the earlier failure that made this method hopeless
	Err    error        // why it failed
	Lost   bool         // the probe ran, but sent no answer
}

// attempt records what a failed attempt reveals about later attempts.
type attempt struct {
	method string
	reason facts.Reason
	waited bool   // it timed out
	early  bool   // it gave up before its full time
	again  bool   // it was the second attempt
	mute   string // the image that ran and did not answer; "" = none
}

// Next puts a probe on the node by the next method that works. If no method is left, it returns nil, and Failures has
// the reasons.
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
	if len(f.failures) == 0 { // otherwise the node would seem checked
		f.failures = append(f.failures,
			Failure{Method: f.Methods[0].Name, Err: fmt.Errorf("not tried: %w", context.Cause(ctx))})
	}
	return nil, nil
}

// next returns the method to try now. It returns false if no method is left.
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

// try makes one attempt. It returns nil if the attempt failed.
func (f *Fallback) try(ctx context.Context, m Method, limits limits) (*Placed, error) {
	began := time.Now()
	opts := f.Options(Try{Method: m.Name, After: f.failures, GivesUp: limits.silence(m)})
	opts.Start, opts.Idle, opts.Again = limits.start, limits.idle, m.again
	if m.again { // objects of the first attempt may still be terminating
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

// NoAnswer records that a probe ran but did not send an answer. Next then tries the following method.
func (f *Fallback) NoAnswer(p *Placed, err error) {
	a := attempt{method: p.Method, mute: p.image}
	if pe, ok := errors.AsType[*PlacementError](err); ok {
		a.reason = pe.Reason
	}
	f.before = append(f.before, a)
	f.failures = append(f.failures, Failure{Method: p.Method, Err: err, Lost: true})
}

// Failures returns the methods that failed or were skipped.
func (f *Fallback) Failures() []Failure { return f.failures }

func attemptOf(m Method, err error, took time.Duration, limits limits) attempt {
	a := attempt{method: m.Name, again: m.again}
	if pe, ok := errors.AsType[*PlacementError](err); ok {
		a.reason, a.waited = pe.Reason, pe.Waited
	}
	a.early = a.waited && limits.idle > 0 && took < limits.start
	return a
}

// The time limits for a probe to start, unless the user set one. A healthy node takes a second. If the kubelet has not
// renewed the lease for 40 s, or has not reached the runtime for 30 s, the node is unlikely to start a container. The
// limits are short because the user is waiting.
const (
	StartUsual  = 40 * time.Second
	startSilent = 10 * time.Second
	// If other methods are left, a shorter wait is enough. One second of silence is normal, but eight seconds are not.
	startDoubted = 5 * time.Second
	idleUsual    = 8 * time.Second
	// If a node does not start anything, this is the time limit for exec in each of at most two containers. A kubelet that
	// serves exec needs a fraction of a second.
	startExec = 2 * time.Second
)

// limits holds a method's time limits, or the reason why the method is skipped.
type limits struct {
	start   time.Duration // 0 = the default of an uploaded probe (replyLimit in upload.go)
	idle    time.Duration // maximum time without any event; 0 = same as start
	skip    string
	because facts.Reason
}

// limits returns the limits of one method. If the user set a time, a method never gives up before that time.
func (f *Fallback) limits(m Method) limits {
	l := limitsOf(m, len(f.Methods) > 1, f.before, f.Silent)
	if f.Start > 0 {
		l.start, l.idle = f.Start, 0
	}
	return l
}

// limitsOf sets the limits of one method according to the earlier failures. Their cause may also stop this method, and
// an ephemeral container that never starts cannot be removed from its pod.
func limitsOf(m Method, others bool, before []attempt, silent bool) limits {
	l := usualLimits(m, others, silent)
	if m.again || m.needs() == needsLogin { // the method needs neither the API nor a kubelet
		return l
	}
	for _, a := range before {
		switch {
		case methodCalled(a.method).needs == needsExec && a.waited: // exec had only a few seconds; a start may take longer
			continue
		case a.reason == facts.ReasonAPI:
			l.skip = "it uses the same API server, which fails"
		case a.reason == facts.ReasonKubelet && a.waited && m.needs() == needsExec:
			l.start = startExec // a kubelet that receives no new pods may still serve old pods
			continue
		case a.reason == facts.ReasonKubelet && a.waited:
			l.skip = "it needs the same kubelet, which has started nothing"
		case a.reason == facts.ReasonRuntime && a.waited:
			l.skip = "it needs the same container runtime, which has started nothing"
		case a.reason == facts.ReasonAttach:
			l.skip = "it uses the kubelet's port 10250 too"
		case a.reason == facts.ReasonNoAuthorizer:
			l.skip = "it uses the same kubelet, which cannot authorize requests through the API server"
		case a.reason == facts.ReasonImage && methodCalled(m.Name).Stays:
			l.skip = "it needs the same image"
		case a.mute != "" && methodCalled(a.method).Pods && methodCalled(m.Name).Stays:
			l.skip = fmt.Sprintf("image %s ran in a pod and did not answer as a probe; "+
				"an ephemeral container could not be removed", a.mute)
		default:
			continue
		}
		l.because = a.reason
		break
	}
	return l
}

// silence returns the maximum time that a method waits without any event.
func (l limits) silence(m Method) time.Duration {
	switch {
	case m.needs() == needsLogin:
		return max(usualConnect, l.start)
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

// starterOf returns the first attempt with a method that starts a container, or nil.
func starterOf(before []attempt) *attempt {
	for i, a := range before {
		if methodCalled(a.method).needs == needsStart {
			return &before[i]
		}
	}
	return nil
}

// secondAttempt returns the method to try again after all methods failed. If the first method that starts a container
// gave up early, a slow node now gets the full time. Before that, exec is tried again. It uses the same kubelet and
// runtime, but needs less work from them. If exec hangs for its full time, both hang, and a container would not start.
func secondAttempt(methods []Method, before []attempt) (m Method, worth bool) {
	first := starterOf(before)
	if first == nil || !first.early {
		return Method{}, false
	}
	last := attempt{waited: true} // exec may have been skipped because it needs the same runtime
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
