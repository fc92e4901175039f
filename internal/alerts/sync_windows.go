package alerts

import "os"

// syncFolder does nothing: Windows has no sync for folders.
func syncFolder(*os.File) error { return nil }
