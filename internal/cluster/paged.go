package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/calico-probe/calico-probe/probe"
)

// pagedShare is how much of its time a list has by pages, before the whole of it is asked of the API server's cache.
const pagedShare = 0.5

// lister lists objects, as clients of one kind do.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
}

// inPages lists objects of a type page by page and gives each to take, which keeps of it what is needed: a list of
// thousands of nodes takes many times the memory that is left of it. Where pages cannot be had, as while etcd has no
// leader, or not to the last, the whole list is asked of the API server's cache, after begin has forgotten what was
// had.
func inPages[T any, L runtime.Object](ctx context.Context, of lister[L], options metav1.ListOptions, begin func(),
	take func(*T),
) error {
	each := func(one runtime.Object) error {
		if object, is := any(one).(*T); is {
			take(object)
		}
		return nil
	}
	some := ctx
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		some, cancel = context.WithTimeout(ctx, time.Duration(pagedShare*float64(time.Until(end))))
		defer cancel()
	}
	page := func(ctx context.Context, o metav1.ListOptions) (out runtime.Object, err error) {
		// Here, because a panic on the pager's own goroutine ends the program.
		err = probe.Recovered(func() (err error) { out, err = of.List(ctx, o); return err })
		return out, err
	}
	begin()
	err := pager.New(page).EachListItem(some, options, each)
	if err == nil || ctx.Err() != nil {
		return err
	}
	begin()
	options.ResourceVersion = "0"
	all := pager.New(page)
	all.PageSize = 0
	return all.EachListItem(ctx, options, each)
}
