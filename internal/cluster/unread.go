package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unread returns the first error of what ReadAll and ReadShared read for all nodes together, nil if they read
// everything. Each node is judged by all of it, so one list that fails makes every node look worse, or every node look
// the same. A resource that does not exist is no error.
func (s *Survey) Unread() error { return cmp.Or(s.unread()...) }

// unread returns the errors of all these parts, nil of those that were read.
func (s *Survey) unread() []error {
	all := []error{s.nodesErr, s.leasesErr, s.claimsErr, s.felixConfigsErr, s.apiErr, s.dnsErr, s.dnsServers.rights.err,
		s.controllersErr, s.noControllersErr, s.setsErr, s.blockErr, s.ipam.missing, s.policies.err,
		requestError(s.policies.other), s.hostEndpointsErr, s.poolErr, s.tunnelErr, s.serviceErr, s.stray.err,
		s.peeringErr, s.infoErr, s.webhooks.err, requestError(s.shared.podsErr), requestError(s.shared.typhaErr),
		requestError(s.shared.servicesErr)}
	for _, err := range s.given.errs {
		all = append(all, err)
	}
	for i, err := range all {
		if apierrors.IsNotFound(err) {
			all[i] = nil
		}
	}
	return all
}

// requestError returns an error if it is about a request to the API, not about the objects that were read.
func requestError(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) || errors.As(err, new(*url.Error)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
