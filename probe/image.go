package probe

import "slices"

// ImageWanting tells whether what the kubelet says a container waits for is its image.
func ImageWanting(reason string) bool {
	return slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"ErrInvalidImageName", "ImageInspectError", "RegistryUnavailable"}, reason)
}
