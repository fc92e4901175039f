package main

import "github.com/calico-probe/calico-probe/probe"

// The digests of this release's images, which the build of a release sets with the linker's
// flag -X. Without them, as in a development build, an image is named by its tag alone.
var probeDigest, toolboxDigest string

// probeImage is the image of a probe unless the user names another one.
func probeImage() string { return pinned(probe.Image, probeDigest) }

// toolboxImage is the image with a shell and tools unless the user names another one.
func toolboxImage() string { return pinned(probe.Toolbox, toolboxDigest) }

func pinned(image, digest string) string {
	if digest == "" {
		return image
	}
	return image + "@" + digest
}

// isOurs tells whether an image is one of this release's.
func isOurs(image string) bool { return image == probeImage() || image == toolboxImage() }
