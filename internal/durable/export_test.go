package durable

// SetSyncDir replaces how directories are flushed; nil puts the system's way back.
func SetSyncDir(f func(path string) error) {
	if f == nil {
		f = systemSyncDir
	}
	syncDir = f
}
