package main

// nodeFaults are those of the kubelet, the runtime and the machine.
func nodeFaults() []fault {
	const node = "node-b"
	return []fault{
		{
			Name: "kubelet-stopped", Node: node, About: "NotReady, 'Kubelet stopped posting node status'",
			Inject: scripted(node, stop("kubelet")), Heal: scripted(node, start("kubelet")),
		},
		{
			Name: "containerd-frozen", Node: node, About: "pods stay in ContainerCreating; the node may still be Ready",
			Inject: scripted(node, signalTo("containerd", "STOP")), Heal: scripted(node, signalTo("containerd", "CONT")),
		},
	}
}
