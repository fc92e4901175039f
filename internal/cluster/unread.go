package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unread returns the first error in the parts that ReadAll and ReadShared read for all nodes together, or nil if they
// read everything. Every verdict uses all parts, so after one failed list every node would look worse, or all nodes
// would look the same. A missing resource is not an error.
func (s *Survey) Unread() error { return cmp.Or(s.UnreadParts()...) }

// UnreadParts returns the errors of all these parts. The error is nil for each part that was read.
func (s *Survey) UnreadParts() []error {
	all := []error{s.Leases.Err, s.Claims.Err, s.FelixConfigs.Err, s.API.Err, s.DNS.Err, s.DNSServers.Err,
		s.Controllers.Err, s.NoControllers.Err, s.Sets.Err, s.Blocks.Err, s.Policies.Unread,
		requestError(s.Policies.Other), s.HostEndpoints.Err, s.Pools.Err, s.AllServices.Err, s.Stray.Err,
		s.Peering.Configs.Err, s.Peering.Peers.Err, s.Info.Err, s.Webhooks.Err, requestError(s.shared.pods.Err),
		requestError(s.shared.Typha.Err), requestError(s.shared.Services.Err)}
	if !Denied(s.Refused.Err) { // the right is optional: without it the check is skipped
		all = append(all, s.Refused.Err)
	}
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

// requestError returns err if it is about an API request, and nil if it is about the objects.
func requestError(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) || errors.As(err, new(*url.Error)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
