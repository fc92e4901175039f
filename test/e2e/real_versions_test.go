//go:build e2e

package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// onEveryVersion are the twelve of realFaults that every version and encapsulation of Calico can have.
var onEveryVersion = []string{
	"bgp-dropped-one-way", "felix-dataplane-hangs", "calico-ipam-gone", "datastore-locked", "policy-denies-all",
	"rights-taken-away", "command-does-not-exist", "address-invalid", "pool-exhausted", "pod-route-deleted",
	"default-route-deleted", "bgp-password-on-one-side",
}

// needBGP are those that a cluster without BIRD cannot have.
var needBGP = []string{"bgp-dropped-one-way", "bgp-password-on-one-side"}

// TestVersions runs calico-probe on healthy nodes of one Calico, and on the same twelve faults as on every other
// version. It writes what was asked, skipped and named into the page that VERSIONS names, in place of an older record
// of the same versions, encapsulation, data plane and kernel.
func TestVersions(t *testing.T) {
	onCalico(t)
	page := os.Getenv("VERSIONS")
	if page == "" {
		t.Skip("writes docs/versions.md: make versions CALICO=DIR")
	}
	is := versionsHere(t)
	record := versionRecord{versions: is}
	for _, node := range []string{"node-a", "node-b"} {
		d, a := report(t, "run", "--node", node, "--skip", "node-load")
		record.healthy = append(record.healthy, fmt.Sprintf("%s: %s", node, d.Verdict))
		if d.Verdict != "healthy" || len(d.Causes) != 0 {
			t.Errorf("%s is %s, causes %v, want healthy and none\n%s", node, d.Verdict, d.Causes, a.stderr)
		}
		record.asked(d)
	}
	for _, f := range realFaults {
		if !slices.Contains(onEveryVersion, f.name) {
			continue
		}
		if is.bgp == "" && slices.Contains(needBGP, f.name) {
			record.without = append(record.without, f.name)
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			answer := firstAnswer{fault: f.name, want: f.want, first: "not made"}
			defer func() { record.answers = append(record.answers, answer) }()
			answer, _ = broke(t, f)
		})
	}
	if err := record.write(page); err != nil {
		t.Error(err)
	}
}

// versions are what a record is about.
type versions struct{ calico, kubernetes, plane, encapsulation, kernel, bgp string }

// versionsHere asks the cluster for its versions.
func versionsHere(t *testing.T) versions {
	t.Helper()
	ask := func(command string) string {
		out, err := script(t, command)
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return strings.TrimSpace(out)
	}
	image := ask(`kubectl -n kube-system get ds calico-node -o jsonpath='{.spec.template.spec.containers[0].image}'`)
	info := strings.Fields(ask(`kubectl get node node-a -o jsonpath='{.status.nodeInfo.kubeletVersion} {.status.nodeInfo.kernelVersion}'`))
	pool := strings.Fields(ask(`kubectl get ippools.crd.projectcalico.org default-ipv4-ippool -o jsonpath='{.spec.ipipMode} {.spec.vxlanMode}'`))
	if len(info) != 2 || len(pool) != 2 {
		t.Fatalf("node-a has the versions %v and its pool the modes %v", info, pool)
	}
	out := versions{calico: image[strings.LastIndex(image, ":")+1:], kubernetes: info[0], kernel: info[1],
		plane: "iptables", encapsulation: "none", bgp: ask(`kubectl -n kube-system get cm calico-config -o jsonpath='{.data.calico_backend}' | grep bird || true`)}
	for name, mode := range map[string]string{"IPIP": pool[0], "VXLAN": pool[1]} {
		if mode != "Never" {
			out.encapsulation = name + " " + mode
		}
	}
	// Felix may choose its plane itself, so its tables tell.
	felix := ask(`kubectl get felixconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.bpfEnabled} '; on node-a -- nft list tables`)
	switch {
	case strings.HasPrefix(felix, "true"):
		out.plane = "eBPF"
	case strings.Contains(felix, "table ip calico"):
		out.plane = "nftables"
	}
	return out
}

// String is the record's heading: what distinguishes one record from another.
func (v versions) String() string {
	return fmt.Sprintf("%s, Kubernetes %s, %s, %s, kernel %s", v.calico, v.kubernetes, v.plane, v.encapsulation, v.kernel)
}

// versionRecord is what one run of TestVersions saw.
type versionRecord struct {
	versions
	healthy []string
	checks  map[string]bool     // true if some result is not a skip
	skipped map[string][]string // checks by reason
	answers []firstAnswer
	without []string // faults that cannot be made
}

// asked notes which checks were asked on the node itself, and why the others were skipped.
func (r *versionRecord) asked(d document) {
	if r.checks == nil {
		r.checks, r.skipped = map[string]bool{}, map[string][]string{}
	}
	for _, res := range d.Results {
		if res.Node != "" {
			continue
		}
		r.checks[res.Check] = r.checks[res.Check] || res.Status != probe.Skip
		if res.Status == probe.Skip && !slices.Contains(r.skipped[res.Saw], res.Check) {
			r.skipped[res.Saw] = append(r.skipped[res.Saw], res.Check)
		}
	}
}

// section is the record as a section of the page, without its heading.
func (r *versionRecord) section() string {
	var b strings.Builder
	n := 0
	for _, asked := range r.checks {
		if asked {
			n++
		}
	}
	fmt.Fprintf(&b, "Without a fault: %s. %d checks ran.\n\nSkipped:\n\n", strings.Join(r.healthy, ", "), n)
	reasons := make([]string, 0, len(r.skipped))
	for why, checks := range r.skipped {
		slices.Sort(checks)
		reasons = append(reasons, fmt.Sprintf("- %s: %s\n", strings.Join(checks, ", "), why))
	}
	slices.Sort(reasons)
	fmt.Fprintf(&b, "%s\n| fault | right answer | first cause | |\n|---|---|---|---|\n", strings.Join(reasons, ""))
	for _, a := range r.answers {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.fault, a.want, strings.TrimSpace(a.first+" "+a.confidence), a.is())
	}
	for _, name := range r.without {
		fmt.Fprintf(&b, "| %s | | | this cluster has no BGP |\n", name)
	}
	return b.String()
}

// row is the record in the table of all records.
func (r *versionRecord) row() string {
	counts := map[string]int{}
	for _, a := range r.answers {
		counts[a.is()]++
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %d of %d | %d | %d | %d |", r.calico, r.kubernetes, r.plane, r.encapsulation,
		r.kernel, strings.Join(r.healthy, ", "), counts["right"], len(r.answers), counts["silent"], counts["wrong"],
		counts["wrong, high"])
}

// versionsHead is the text before the records.
const versionsHead = `# Versions, data planes, kernels

'make versions CALICO=DIR' writes this page on Calico itself. Each cluster first runs calico-probe on two nodes without a fault,
then on the same twelve faults. 20 s after a fault shows, 'calico-probe run' runs once, and its first answer counts.

| Calico | Kubernetes | data plane | encapsulation | kernel | without a fault | right | silent | wrong | wrong, high |
|---|---|---|---|---|---|---|---|---|---|
`

// write puts the record into the page, in place of an older one with the same heading.
func (r *versionRecord) write(page string) error {
	old, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the records: %w", err)
	}
	parts := strings.Split(string(old), "\n## ")
	rows := slices.DeleteFunc(strings.Split(parts[0], "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "| v") || sameCells(line, r.row(), 5)
	})
	sections := slices.DeleteFunc(parts[1:], func(s string) bool { return strings.HasPrefix(s, r.String()+"\n") })
	rows, sections = append(rows, r.row()), append(sections, r.String()+"\n\n"+r.section())
	newestFirst := func(a, b string) int { return cmp.Compare(b, a) }
	slices.SortFunc(rows, newestFirst)
	slices.SortFunc(sections, newestFirst)
	text := versionsHead + strings.Join(rows, "\n") + "\n"
	for _, s := range sections {
		text += "\n## " + strings.TrimSpace(s) + "\n"
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the records: %w", err)
	}
	return nil
}

// sameCells reports whether two rows of a table have the same first n cells.
func sameCells(a, b string, n int) bool {
	as, bs := strings.Split(a, " | "), strings.Split(b, " | ")
	return len(as) > n && len(bs) > n && slices.Equal(as[:n], bs[:n])
}
