package cluster

import (
	"cmp"
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// A Read is one API answer: the value, which may be incomplete, and the error that made it incomplete.
type Read[T any] struct {
	Value T
	Err   error
}

// read calls a reading function. Objects are foreign data: if one causes a panic in the function, only this answer is
// lost, as if the API had not answered.
func (r *Read[T]) read(ctx context.Context, from func(context.Context) (T, error)) {
	r.Err = probe.Recovered(func() (err error) { r.Value, err = from(ctx); return err })
}

// start calls a reading function on its own goroutine.
func (r *Read[T]) start(ctx context.Context, all *probe.Workers, from func(context.Context) (T, error)) {
	all.Go(func() { r.read(ctx, from) })
}

// forEach calls read for each item, concurrently, and keeps the order.
func forEach[T, A any](of []A, read func(A) (T, error)) []Read[T] {
	out := make([]Read[T], len(of))
	room := make(chan struct{}, sideBySide)
	var all probe.Workers
	for i := range of {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			out[i].Err = probe.Recovered(func() (err error) { out[i].Value, err = read(of[i]); return err })
		})
	}
	all.Wait()
	return out
}

// sideBySide is the maximum number of concurrent reads in forEach.
const sideBySide = 16

// whole returns the values, and the first error.
func whole[T any](of []Read[T]) ([]T, error) {
	values := make([]T, len(of))
	var err error
	for i, one := range of {
		values[i], err = one.Value, cmp.Or(err, one.Err)
	}
	return values, err
}
