package ask

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"runtime"

	"github.com/calico-probe/calico-probe/probe"
)

// machines maps the CPUs for which probes are built to the values in an ELF header.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// narrow maps a CPU to the 32-bit CPU whose programs most of its kernels also start.
var narrow = map[elf.Machine]elf.Machine{elf.EM_X86_64: elf.EM_386, elf.EM_AARCH64: elf.EM_ARM}

// alienPlugins lists plugins that the kernel cannot start ("exec format error", "permission denied"), with the
// reason for each. It omits scripts, and files that it cannot read.
func alienPlugins(h *probe.Host, plugins, bins []string) []string {
	var out []string
	for _, plugin := range plugins {
		for _, bin := range bins {
			file := path.Join(bin, path.Base(plugin))
			why, err := cannotStart(h, file)
			if err != nil {
				continue
			}
			if why != "" {
				out = append(out, file+" "+why)
			}
			break // the runtime starts the first one
		}
	}
	return out
}

// cannotStart returns the reason why the kernel cannot start a file as a program. It returns "" if
// the kernel may be able to.
func cannotStart(h *probe.Host, file string) (string, error) {
	f, err := h.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("checking %s: %w", file, err)
	}
	head := make([]byte, 20) // up to and including the machine field of the ELF header
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	if why := alien(head[:n], info.Size()); why != "" {
		return why, nil
	}
	if info.Mode()&0o111 == 0 {
		return fmt.Sprintf("is not executable (mode %04o)", info.Mode().Perm()), nil
	}
	if needs := loadedLength(f); needs > info.Size() {
		return fmt.Sprintf("is truncated (%d bytes, but the kernel loads %d)", info.Size(), needs), nil
	}
	return "", nil
}

// loadedLength returns the minimum length of a program's file for the kernel to load it, or 0 if that is unknown. It
// reads only the program headers, because a truncated file has no section headers.
func loadedLength(f io.ReaderAt) int64 {
	var head elf.Header64
	if err := binary.Read(io.NewSectionReader(f, 0, 64), binary.LittleEndian, &head); err != nil ||
		head.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64) || head.Phoff > maxFileEnd || head.Phnum > 128 {
		return 0
	}
	parts := make([]elf.Prog64, head.Phnum)
	size := int64(binary.Size(parts))
	if err := binary.Read(io.NewSectionReader(f, int64(head.Phoff), size), binary.LittleEndian, parts); err != nil {
		return 0
	}
	var end uint64
	for _, part := range parts {
		if part.Type == uint32(elf.PT_LOAD) && part.Off < maxFileEnd && part.Filesz < maxFileEnd {
			end = max(end, part.Off+part.Filesz)
		}
	}
	return int64(end)
}

// maxFileEnd is larger than any program. A larger number comes from a broken header.
const maxFileEnd = 1 << 40

// alien returns the reason why a program cannot run on this CPU, or "" if it may run. Both CPUs
// have the same byte order.
func alien(head []byte, size int64) string {
	switch {
	case size == 0:
		return "is empty"
	case len(head) >= 2 && string(head[:2]) == "#!":
		return ""
	case len(head) < 20 || string(head[:4]) != elf.ELFMAG:
		return "is not a program"
	}
	want, known := machines[runtime.GOARCH]
	if is := elf.Machine(binary.LittleEndian.Uint16(head[18:])); known && is != want && is != narrow[want] {
		return fmt.Sprintf("is for another CPU (%v instead of %v)", is, want)
	}
	return ""
}
