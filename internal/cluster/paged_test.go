package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listing lists nodes by a function.
type listing func(metav1.ListOptions) (*corev1.NodeList, error)

func (l listing) List(_ context.Context, o metav1.ListOptions) (*corev1.NodeList, error) { return l(o) }

// TestInPages requires every object once: by pages, with an expired page, and if etcd serves no pages.
func TestInPages(t *testing.T) {
	t.Parallel()
	const nodes, page = 1200, 500
	expired := apierrors.NewResourceExpired("the continue token is too old")
	for name, c := range map[string]struct {
		second error // what the second page is answered with
		cached error // and the whole list
		want   int
	}{
		"pages":     {nil, errors.New("not asked for"), nodes},
		"expired":   {expired, nil, nodes},
		"no leader": {errors.New("etcdserver: no leader"), nil, nodes},
		"no answer": {errors.New("etcdserver: no leader"), errors.New("gone"), 0},
	} {
		list := func(o metav1.ListOptions) (*corev1.NodeList, error) {
			from, _ := strconv.Atoi(o.Continue) // "" = from the beginning
			to := min(from+page, nodes)
			switch {
			case o.ResourceVersion == "0":
				if c.cached != nil {
					return nil, c.cached
				}
				from, to = 0, nodes
			case o.Continue != "" && c.second != nil:
				return nil, c.second
			case o.Limit == 0:
				from, to = 0, nodes
			case o.Limit != page:
				t.Errorf("%s: pages of %d", name, o.Limit)
			}
			out := &corev1.NodeList{}
			if to < nodes {
				out.Continue = strconv.Itoa(to)
			}
			for i := from; i < to; i++ {
				out.Items = append(out.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
			}
			return out, nil
		}
		had := map[string]int{}
		err := inPages(t.Context(), listing(list), metav1.ListOptions{}, func() { clear(had) },
			func(n *corev1.Node) { had[n.Name]++ })
		if (err == nil) != (c.want > 0) || err == nil && len(had) != c.want {
			t.Errorf("%s: %v, %d nodes", name, err, len(had))
		}
		if c.want == 0 {
			continue
		}
		for node, times := range had {
			if times != 1 {
				t.Errorf("%s: node %s came %d times", name, node, times)
			}
		}
	}
}
