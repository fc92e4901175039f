package probe

// Release is the version that the client and the probe share.
const Release = "0.1.0"

// Image is the probe image of this release.
const Image = "ghcr.io/calico-probe/probe:" + Release

// Toolbox is the image of this release that contains a shell and tools.
const Toolbox = "ghcr.io/calico-probe/toolbox:" + Release

// ClientImage is the client image of this release. It runs the client in a cluster.
const ClientImage = "ghcr.io/calico-probe/calico-probe:" + Release
