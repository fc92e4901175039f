package probe

// Release is the version of the client and the probe, which are released together.
const Release = "0.1.0"

// Image is the probe image that belongs to this release.
const Image = "ghcr.io/calico-probe/probe:" + Release
