package probe

import "slices"

// ImageWanting reports whether the kubelet's waiting reason concerns the container's image.
func ImageWanting(reason string) bool {
	return slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"ErrInvalidImageName", "ImageInspectError", "RegistryUnavailable"}, reason)
}
