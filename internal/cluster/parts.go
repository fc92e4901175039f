package cluster

import "github.com/calico-probe/calico-probe/probe"

// parts reads the parts of a snapshot side by side. What the API returns is foreign: an object at which this program
// crashes costs its part alone, as if the API had not answered that list.
type parts struct{ probe.Workers }

// read calls a reader on its own goroutine. err is the error of its part, which a crash sets.
func (p *parts) read(err *error, reader func()) {
	p.Go(func() { guarded(err, reader) })
}

// guarded calls a reader. err is the error of its part, which a crash sets.
func guarded(err *error, reader func()) {
	if crash := probe.Recovered(func() error { reader(); return nil }); crash != nil {
		*err = crash
	}
}
