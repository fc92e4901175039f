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

// May asks the API server whether its user has some permissions, and returns the answers in the same order. The server
// never stores the review objects. The error is from the review that failed.
func (c *Client) May(ctx context.Context, asks []authorizationv1.ResourceAttributes) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return whole(forEach(asks, func(ask authorizationv1.ResourceAttributes) (bool, error) {
		review, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &ask},
			}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("checking the permission to %s %s: %w", ask.Verb,
				strings.TrimSuffix(ask.Resource+"/"+ask.Subresource, "/"), err)
		}
		return review.Status.Allowed, nil
	}))
}

// Version returns the API server's version.
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var v version.Info
	b, err := c.kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return v, fmt.Errorf("reading the API server's version: %w", err)
	}
	return v, nil
}

// Whoami returns the user's name from the API server. It returns "" if the server does not report a name, because the
// resource is new in Kubernetes 1.28.
func (c *Client) Whoami(ctx context.Context) string {
	r, err := c.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return probe.Line(r.Status.UserInfo.Username)
}
