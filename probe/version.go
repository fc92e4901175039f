package probe

// Release is the shared version of the client and the probe.
const Release = "0.1.0"

// Image is the probe image of this release.
const Image = "ghcr.io/calico-probe/probe:" + Release

// Toolbox is the image of this release with a shell and tools.
const Toolbox = "ghcr.io/calico-probe/toolbox:" + Release

// ClientImage is the client image of this release, for running it in a cluster.
const ClientImage = "ghcr.io/calico-probe/calico-probe:" + Release
