package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/calico-probe/calico-probe/probe"
)

// pagedShare is the share of its time for which a list is read page by page, before the whole list is read from the
// API server's cache.
const pagedShare = 0.5

// lister is a client's method to list objects of one kind.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
}

// inPages lists objects page by page and passes each to take, which keeps the needed part: a full list of thousands
// of nodes takes many times the memory of that. If pages are unavailable, as while etcd has no leader, or incomplete,
// it reads the whole list from the API server's cache. Before that, begin discards the earlier results.
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
		// Recover here: a panic on the pager's own goroutine would end the program.
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
