// Package reach is how a check reaches something from the node: connects, pings, looks up routes, and tells what came
// back. It needs the kernel's interfaces.
package reach
