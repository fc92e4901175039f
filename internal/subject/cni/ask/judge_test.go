package ask

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestCNIJudged checks that missing plugins are found for any network, and that a renamed file of Calico is found.
func TestCNIJudged(t *testing.T) {
	t.Parallel()
	const calico = `{"plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}]}`
	used := node.CNIPlace{Config: "/etc/cni/net.d", Plugins: []string{"/opt/cni/bin"}, Reported: true, Loopback: true}
	used.Calicos = true
	policyOnly := used
	policyOnly.Calicos = false
	internal := used
	internal.Loopback = false
	guessed := node.CNIPlaces[0]
	multus := map[string]string{"etc/cni/net.d/00-multus.conf": `{"type": "multus"}`}
	withMultus := map[string]string{"etc/cni/net.d/00-multus.conf": `{"type": "multus"}`, "opt/cni/bin/multus": "#!"}
	for name, c := range map[string]struct {
		place  node.CNIPlace
		files  map[string]string
		want   probe.Status
		reason string
		says   string
	}{
		"good":                  {used, nil, probe.OK, "", "is used, with the plugins calico, calico-ipam"},
		"no loopback":           {used, map[string]string{"opt/cni/bin/loopback": ""}, probe.Fail, cni.CNIPlugins, "each pod is not in /opt/cni/bin: loopback"},
		"loopback of its own":   {internal, map[string]string{"opt/cni/bin/loopback": ""}, probe.OK, "", "is used"},
		"renamed, other's used": {used, map[string]string{"etc/cni/net.d/10-calico.conflist": "", "etc/cni/net.d/10-calico.conflist.cilium_bak": calico, "etc/cni/net.d/05-cilium.conflist": `{"plugins": [{"type": "cilium-cni"}]}`}, probe.Fail, cni.CNIShadowed, "renamed to 10-calico.conflist.cilium_bak"},
		"renamed, none":         {used, map[string]string{"etc/cni/net.d/10-calico.conflist": "", "etc/cni/net.d/10-calico.conflist.cilium_bak": calico}, probe.Fail, cni.CNINone, "renamed to 10-calico.conflist.cilium_bak"},
		"a backup beside a network of others": {policyOnly, map[string]string{"etc/cni/net.d/10-calico.conflist": "",
			"etc/cni/net.d/10-calico.conflist.bak": calico,
			"etc/cni/net.d/05-aws.conflist":        `{"plugins": [{"type": "aws-cni"}]}`, "opt/cni/bin/aws-cni": "#!/bin/sh"},
			probe.Info, "", "only enforces policy"},
		"Multus is gone":  {used, multus, probe.Fail, cni.CNIPlugins, "not in /opt/cni/bin: multus"},
		"Multus is there": {used, withMultus, probe.Info, "", "Multus"},
		"policy alone":    {used, map[string]string{"etc/cni/net.d/10-calico.conflist": "", "etc/cni/net.d/10-aws.conflist": `{"plugins": [{"type": "aws-cni"}]}`, "opt/cni/bin/aws-cni": "#!/bin/sh"}, probe.Info, "", "no file names calico"},
		"others, a guess": {guessed, map[string]string{"etc/cni/net.d/10-calico.conflist": "", "etc/cni/net.d/100-crio-bridge.conf": `{"type": "bridge"}`}, probe.Info, "", "no file names calico"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"etc/cni/net.d/10-calico.conflist": calico}
			for _, plugin := range []string{"calico", "calico-ipam", "loopback"} {
				files["opt/cni/bin/"+plugin] = "#!/bin/sh"
			}
			for file, text := range c.files {
				if delete(files, file); text != "" {
					files[file] = text
				}
			}
			r := networksAt(checktest.Node(t, files), []node.CNIPlace{c.place}, true)
			if r.Status != c.want || r.Facts.Str(probe.FactReason) != c.reason || !strings.Contains(r.Saw, c.says) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestCNICannotStart checks that a non-executable and a truncated program differ from a complete one.
func TestCNICannotStart(t *testing.T) {
	t.Parallel()
	var program bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machines[runtime.GOARCH]), Version: 1, Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	for _, part := range []any{head, elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: 256}} {
		must.Do(t, binary.Write(&program, binary.LittleEndian, part))
	}
	whole := program.String()
	rest := strings.Repeat("\x00", 256-len(whole))
	h := checktest.Node(t, map[string]string{"opt/cni/bin/whole": whole + rest, "opt/cni/bin/cut": whole,
		"lib/plain": whole + rest})
	for file, want := range map[string]string{"/opt/cni/bin/whole": "", "/opt/cni/bin/cut": "is truncated", "/lib/plain": "is not executable (mode 0644)"} {
		if got, err := cannotStart(h, file); err != nil || !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}
