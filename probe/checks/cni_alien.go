package checks

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"runtime"

	"github.com/calico-probe/calico-probe/probe"
)

// machines are the CPUs that a probe is built for, as an ELF header names them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// narrow are the 32-bit CPUs whose programs most kernels of these start too.
var narrow = map[elf.Machine]elf.Machine{elf.EM_X86_64: elf.EM_386, elf.EM_AARCH64: elf.EM_ARM}

// alienPlugins lists plugins that the kernel refuses to start ("exec format error"), each with why. A file that cannot
// be read, and a script, are none of them.
func alienPlugins(h *probe.Host, plugins, bins []string) []string {
	var out []string
	for _, plugin := range plugins {
		for _, bin := range bins {
			file := path.Join(bin, path.Base(plugin))
			head, size, err := headOf(h, file)
			if err != nil {
				continue
			}
			if why := alien(head, size); why != "" {
				out = append(out, file+" "+why)
			}
			break // the runtime starts the first
		}
	}
	return out
}

// headOf reads the first bytes of a file, as many as an ELF header's machine needs.
func headOf(h *probe.Host, file string) (head []byte, size int64, err error) {
	f, err := h.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("checking %s: %w", file, err)
	}
	head = make([]byte, 20)
	n, err := f.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], info.Size(), err
}

// alien returns why a program cannot run on this CPU, "" where it may. The order of bytes is that of both CPUs.
func alien(head []byte, size int64) string {
	switch {
	case size == 0:
		return "is empty"
	case len(head) >= 2 && string(head[:2]) == "#!":
		return ""
	case len(head) < 20 || string(head[:4]) != elf.ELFMAG:
		return "is no program"
	}
	want, known := machines[runtime.GOARCH]
	if is := elf.Machine(binary.LittleEndian.Uint16(head[18:])); known && is != want && is != narrow[want] {
		return fmt.Sprintf("is for another CPU (%v instead of %v)", is, want)
	}
	return ""
}
