package probe

// Release is the version of the client and the probe, which are released together.
const Release = "0.1.0"

// Image is the probe image of this release.
const Image = "ghcr.io/calico-probe/probe:" + Release

// Toolbox is the image of this release with a shell and tools, for nodes that lack them.
const Toolbox = "ghcr.io/calico-probe/toolbox:" + Release

// ClientImage is the image of this release with the client, for running it in a cluster.
const ClientImage = "ghcr.io/calico-probe/calico-probe:" + Release
