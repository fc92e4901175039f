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
	all := []error{s.leases.Err, s.claims.Err, s.felixConfigs.Err, s.api.Err, s.dns.Err, s.dnsServers.Err,
		s.controllers.Err, s.noControllers.Err, s.sets.Err, s.blocks.Err, s.policies.Unread,
		requestError(s.policies.Other), s.hostEndpoints.Err, s.pools.Err, s.allServices.Err, s.stray.Err,
		s.peering.configs.Err, s.peering.peers.Err, s.info.Err, s.webhooks.Err, requestError(s.shared.pods.Err),
		requestError(s.shared.typha.Err), requestError(s.shared.services.Err)}
	for _, config := range s.given {
		all = append(all, config.Err)
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
