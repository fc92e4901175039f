package probe

// Release is the version of the client and the probe, which are released together.
const Release = "0.1.0"
