package main

// networkFaults are those of addresses, BGP, routes and firewalls.
func networkFaults() []fault {
	const node = "node-b"
	return []fault{
		{
			Name: "bird-dead", Node: node, About: "calico-node not ready; pods of other nodes out of reach",
			Inject: scripted(node, stop("bird")), Heal: scripted(node, start("bird")),
		},
	}
}
