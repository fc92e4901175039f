package probe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// MachineOf is what is told of a machine instead of its machine-id, of which machine-id(5)
// wants no more than a keyed hash given away; the Node object has the ID itself. "" = a file
// that has none, or none yet.
func MachineOf(id string) string {
	id = strings.TrimSpace(id)
	if id == "" || id == "uninitialized" {
		return ""
	}
	sum := hmac.New(sha256.New, []byte("calico-probe: the machine of a node"))
	sum.Write([]byte(id)) // never fails (hash.Hash)
	return hex.EncodeToString(sum.Sum(nil))
}

// machineLimit is how long the disk may take to give a file that is read at every boot.
const machineLimit = 2 * time.Second

// Machine is MachineOf the node, as the kubelet finds its machine-id: in the first of two
// files that can be read. "" = neither is visible, or the disk hangs.
func (h *Host) Machine() string {
	found := make(chan string, 1)
	go func() { // ends with the read, which nobody can give up
		for _, name := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
			if id, err := h.ReadFile(name); err == nil {
				found <- MachineOf(string(id))
				return
			}
		}
		found <- ""
	}()
	select {
	case m := <-found:
		return m
	case <-time.After(machineLimit):
		return ""
	}
}
