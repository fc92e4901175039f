package main

import "github.com/calico-probe/calico-probe/probe"

// The digests of this release's images, which the build of a release sets with the linker's
// flag -X. Without them, as in a development build, an image is named by its tag alone.
var probeDigest, toolboxDigest string

// probeImage returns the default image of a probe.
func probeImage() string { return pinned(probe.Image, probeDigest) }

// toolboxImage returns the default image with a shell and tools.
func toolboxImage() string { return pinned(probe.Toolbox, toolboxDigest) }

func pinned(image, digest string) string {
	if digest == "" {
		return image
	}
	return image + "@" + digest
}

// isOurs reports whether an image belongs to this release.
func isOurs(image string) bool { return image == probeImage() || image == toolboxImage() }
