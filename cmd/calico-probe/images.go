package main

import "github.com/calico-probe/calico-probe/probe"

// The image digests of this release, which the release build sets with the linker flag -X. A development build has no
// digests and uses tags.
var probeDigest, toolboxDigest string

// probeImage returns the default probe image.
func probeImage() string { return pinned(probe.Image, probeDigest) }

// toolboxImage returns the default image with a shell and tools.
func toolboxImage() string { return pinned(probe.Toolbox, toolboxDigest) }

func pinned(image, digest string) string {
	if digest == "" {
		return image
	}
	return image + "@" + digest
}

// isOurs reports whether an image is from this release.
func isOurs(image string) bool { return image == probeImage() || image == toolboxImage() }
