package diagnose

// networkRules are those of addresses, BGP, routes, tunnels, firewalls and IPAM.
func networkRules() []*Rule { return nil }
