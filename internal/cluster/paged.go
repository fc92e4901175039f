package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/calico-probe/calico-probe/probe"
)

// pagedShare is the part of the time limit that reading a list page by page may use. After that, the whole list is read
// from the API server's cache.
const pagedShare = 0.5

// lister is a client's method to list objects of one kind.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
}

// inPages lists objects page by page, and passes each object to take, which keeps the needed part. A full list of
// thousands of nodes would need many times the memory. If pages are incomplete, or unavailable because etcd has no
// leader, inPages calls begin to discard the results and reads the whole list from the API server's cache.
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
		// Recover here: a panic on the pager's goroutine would end the program.
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
