package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/calico-probe/calico-probe/probe"
)

// asking is how many questions about rights are under way at once.
const asking = 16

// May asks the API server whether its user may do each of these things; the answers
// are in their order. A review is an object that is never stored. The error is that of a
// question that got no answer.
func (c *Client) May(ctx context.Context, asks []authorizationv1.ResourceAttributes) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	may, errs := make([]bool, len(asks)), make([]error, len(asks))
	room := make(chan struct{}, asking)
	var all probe.Workers
	for i, ask := range asks {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			asked := &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &ask},
			}
			review, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, asked, metav1.CreateOptions{})
			if errs[i] = err; err == nil {
				may[i] = review.Status.Allowed
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("asking whether it is allowed to %s %s: %w", asks[i].Verb,
				strings.TrimSuffix(asks[i].Resource+"/"+asks[i].Subresource, "/"), err)
		}
	}
	return may, nil
}

// Version is the API server's.
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var v version.Info
	b, err := c.kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return v, fmt.Errorf("asking the API server for its version: %w", err)
	}
	return v, nil
}

// Whoami is the name under which the API server knows the user, "" where it does not say: it has no such resource
// before Kubernetes 1.28.
func (c *Client) Whoami(ctx context.Context) string {
	r, err := c.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return probe.Line(r.Status.UserInfo.Username)
}
