package probe

// Release is the version of the client and the probe, which are released together.
const Release = "0.1.0"

// Image is the probe image that belongs to this release.
const Image = "ghcr.io/calico-probe/probe:" + Release

// Toolbox is the image of this release with a shell and tools, for nodes without.
const Toolbox = "ghcr.io/calico-probe/toolbox:" + Release

// ClientImage is the image of this release with the client, for a cluster that runs it.
const ClientImage = "ghcr.io/calico-probe/calico-probe:" + Release
