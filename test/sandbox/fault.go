package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// A fault is a real breakage that can be injected, for training and tests, and healed again.
type fault struct {
	Name     string // kebab-case; describes the symptom, not the cause
	Incident string // F1 to F7 for an incident from the field, otherwise ""
	Node     string // the affected node
	About    string // the symptom for on-call, in one line
	Shows    shows
	Inject   func(context.Context, lab) error `json:"-"`
	Heal     func(context.Context, lab) error `json:"-"` // also heals a partly injected fault
}

// shows is the expected result of one run of calico-probe. The tests read it from 'fault list json'.
type shows struct {
	Cause string   // the ID of the first cause
	Early []string // causes that are also true for a moment while the fault develops, and may come first
	With  []string // causes that are also true, and may have high confidence
	API   string   // the first cause with --via api, if the API shows the fault

	Runbook string // the built-in runbook for it; "" = none
	Branch  string // the branch that this runbook must take; "" = the one for a cause with its symptom

	Gate    bool // the gate tests it, as one of its family
	Mild    bool // nothing has failed yet: only warnings, with exit code 0
	Machine bool // affects the whole machine: no other cluster may run meanwhile
}

// faults returns all faults in the order of 'fault list'.
func faults() []fault {
	return slices.Concat(nodeFaults(), networkFaults(), startFaults(), calicoFaults())
}

// lab is the cluster with the fault.
type lab struct {
	layout
	*objects
}

// on runs a script on a node.
func (l lab) on(ctx context.Context, node, script string) error {
	cmd, err := inside(ctx, l.layout, node, []string{"sh", "-ec", script})
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("on %s: %w: %s", node, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// scripted returns a step that runs a script on one node.
func scripted(node, script string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error { return l.on(ctx, node, script) }
}

// steps runs steps in order.
func steps(all ...func(context.Context, lab) error) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		for _, step := range all {
			if err := step(ctx, l); err != nil {
				return err
			}
		}
		return nil
	}
}

// signalTo sends a signal to every process with that name in /proc/PID/comm. It ignores processes that exit meanwhile.
func signalTo(name, sig string) string {
	return `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = ` + name + ` ]; then kill -` + sig + ` ${p#/proc/} 2>/dev/null || true; fi; done`
}

// freeze moves the processes with that name to a new cgroup and freezes it; thaw unfreezes it. The mounted hierarchies
// show whether the machine has cgroup v1 or v2.
func freeze(name string) string {
	return frozenCgroup + `mkdir -p $d; for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = ` + name +
		` ]; then echo ${p#/proc/} >$d/cgroup.procs || true; fi; done; ` +
		`if [ -f $d/cgroup.freeze ]; then echo 1 >$d/cgroup.freeze; else echo FROZEN >$d/freezer.state; fi`
}

const thaw = frozenCgroup + `if [ -f $d/cgroup.freeze ]; then echo 0 >$d/cgroup.freeze; else echo THAWED >$d/freezer.state; fi`

// frozenCgroup sets $d to the folder of that cgroup.
const frozenCgroup = `d=/sys/fs/cgroup/lab-frozen; if [ -d /sys/fs/cgroup/freezer ]; then d=/sys/fs/cgroup/freezer/lab-frozen; fi; `

// stop kills a daemon and keeps it down; start lets it start again.
func stop(name string) string  { return "touch " + held(name) + "; " + signalTo(name, "KILL") }
func start(name string) string { return "rm -f " + held(name) }

// held is the file that keeps a daemon of a node down, like 'systemctl stop'.
func held(name string) string { return "/var/lib/calico/sandbox/" + name + ".down" }

// openLab connects to a running cluster.
func openLab(l layout) (lab, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		return lab{}, fmt.Errorf("cluster %s is not running: %w", l.name, err)
	}
	calico, err := exists(l.calicoManifest())
	if err != nil {
		return lab{}, err
	}
	if calico {
		return lab{}, fmt.Errorf("cluster %s runs Calico itself: these faults need its stand-in", l.name)
	}
	o, err := clientFor(config)
	return lab{l, o}, err
}

// faultVerb is 'sandbox fault ...'.
func faultVerb(ctx context.Context, l layout, args []string) error {
	if len(args) == 0 {
		return badUsage("fault takes list, inject NAME or heal")
	}
	switch {
	case args[0] == "list" && len(args) == 2 && args[1] == "json":
		return json.NewEncoder(os.Stdout).Encode(faults())
	case args[0] == "list" && len(args) == 1:
		for _, f := range faults() {
			fmt.Printf("%-26s %-3s %-7s %s\n", f.Name, f.Incident, f.Node, f.About)
		}
		return nil
	case args[0] == "inject" && len(args) == 2:
		return inject(ctx, l, args[1])
	case args[0] == "heal" && len(args) == 1:
		return heal(ctx, l)
	}
	return badUsage("fault %s: use list, inject NAME or heal", strings.Join(args, " "))
}

// injected returns the fault in a cluster, "" for none.
func injected(l layout) (string, error) {
	b, err := os.ReadFile(l.state("fault"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

func faultNamed(name string) (fault, bool) {
	all := faults()
	i := slices.IndexFunc(all, func(f fault) bool { return f.Name == name })
	if i < 0 {
		return fault{}, false
	}
	return all[i], true
}

// Limits for a fault to take effect, and to disappear.
const (
	injecting = 2 * time.Minute
	healing   = 3 * time.Minute
)

func inject(ctx context.Context, l layout, name string) error {
	f, ok := faultNamed(name)
	if !ok {
		return badUsage("unknown fault %q; 'sandbox fault list' lists them", name)
	}
	there, err := injected(l)
	if err != nil {
		return err
	}
	if there != "" {
		return fmt.Errorf("the fault %s is already injected: run 'sandbox fault heal --name %s' first", there, l.name)
	}
	b, err := openLab(l)
	if err != nil {
		return err
	}
	if err := writeFile(l.state("fault"), name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, injecting)
	defer cancel()
	if err := f.Inject(ctx, b); err != nil {
		return fmt.Errorf("injecting %s: %w", name, err)
	}
	fmt.Printf("%s is injected; now: calico-probe run --node %s\n", name, f.Node)
	return nil
}

// heal removes the fault and waits until the cluster is healthy.
func heal(ctx context.Context, l layout) error {
	name, err := injected(l)
	if err != nil {
		return err
	}
	b, err := openLab(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	if f, ok := faultNamed(name); ok {
		if err := f.Heal(ctx, b); err != nil {
			return fmt.Errorf("healing %s: %w", name, err)
		}
	}
	if err := b.whole(ctx); err != nil {
		return err
	}
	if err := os.Remove(l.state("fault")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// whole waits until both kubelets report, and all nodes and pods are ready.
func (l lab) whole(ctx context.Context) error {
	return until(ctx, "the cluster to be healthy", func(ctx context.Context) (bool, error) {
		nodes, err := l.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, n := range nodes.Items {
			if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) || len(n.Spec.Taints) > 0 {
				return false, fmt.Errorf("node %s is not ready", n.Name)
			}
			lease, err := l.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil || lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 15*time.Second {
				return false, errors.Join(err, fmt.Errorf("the kubelet of %s is silent", n.Name))
			}
		}
		pods, err := l.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil || !podReady(&p) {
				return false, fmt.Errorf("pod %s is not ready", p.Name)
			}
		}
		return len(pods.Items) > 0, nil
	})
}
