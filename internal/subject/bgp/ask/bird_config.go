package ask

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// birdConfigCheck binds bgp.BirdConfig to the function that runs it.
var birdConfigCheck = answers.To(bgp.BirdConfig, birdConfig)

const (
	// maxConfig is the maximum size of a configuration file. A peer needs about a kilobyte.
	maxConfig = 16 << 20
	// reloadPatience is the maximum time that confd and BIRD may take to load a new file. They usually need a second.
	reloadPatience = 30 * time.Second
	// restartPause is longer than the second that runit waits before it restarts BIRD.
	restartPause = 1500 * time.Millisecond
	// clockGrain is the resolution of BIRD's clock: whole seconds.
	clockGrain = 2 * time.Second
)

// birdProcess is a calico-node process that has BIRD's root file system. It is BIRD itself, or a process next to it.
type birdProcess struct {
	pid    int
	runs   bool   // true if it is BIRD
	beside string // otherwise, "confd" or "runsv", which supervises BIRD
	config string // BIRD's configuration file
}

func birdConfig(ctx context.Context, p *probe.Pass) {
	set := node.Named(p, probe.KindBackend)
	if set == "vxlan" || set == "none" {
		p.Report(probe.Found(probe.Skip, "Calico's networking backend here is %s, which does not run BIRD", set))
		return
	}
	if comm, err := kernel.ReadProc(p.Host, "1/comm"); err != nil || strings.TrimSpace(comm) == "probe" {
		p.Report(probe.Found(probe.Skip, "the node's processes are not visible with this access method"))
		return
	}
	found, err := birdProcesses(p.Host)
	if err == nil && slices.ContainsFunc(slices.Collect(maps.Values(found)),
		func(b birdProcess) bool { return !b.runs }) {
		select { // BIRD may be restarting
		case <-time.After(restartPause):
			found, err = birdProcesses(p.Host)
		case <-ctx.Done():
		}
	}
	switch {
	case err != nil:
		p.Report(node.Unseen(err))
	case len(found) == 0 && set == "bird":
		p.Report(probe.Found(probe.Fail,
			"neither BIRD nor confd runs on this node, but Calico's networking backend here is bird").
			With(probe.FactReason, "down"))
	case len(found) == 0:
		p.Report(probe.Found(probe.Skip, "Calico does not run BIRD on this node"))
	}
	for _, d := range node.Daemons() {
		if b, ok := found[birdProgram(d)]; ok {
			p.Report(judgeConfig(ctx, d, p, b).On(b.config).With(probe.FactFile, b.config).With(probe.FactPID, b.pid).
				With(probe.FactFamily, d.Family))
		}
	}
}

// birdProgram returns the daemon's name: bird or bird6.
func birdProgram(d node.Daemon) string { return strings.TrimSuffix(d.Name, ".ctl") }

// judgeConfig evaluates the file. If BIRD is running, it also evaluates whether BIRD has loaded the file.
func judgeConfig(ctx context.Context, d node.Daemon, p *probe.Pass, b birdProcess) probe.Result {
	// calico-node always starts both daemons, even if one of them has nothing to do.
	if own := p.Of(probe.KindSelf); len(own) > 0 && len(node.SplitByFamily(own)[d.Family]) == 0 {
		return probe.Found(probe.Skip, "Calico has registered no IPv%d address for this node", d.Family)
	}
	file, err := readConfig(filepath.Join(p.Host.Proc, strconv.Itoa(b.pid), "root"), b.config)
	var r probe.Result
	switch {
	case errors.Is(err, fs.ErrPermission):
		return probe.Found(probe.Skip, "the file is in the root filesystem of process %d, which this access method cannot read",
			b.pid).With(probe.FactReason, "denied")
	case errors.Is(err, fs.ErrNotExist):
		r = probe.Found(probe.Fail, "the file does not exist: confd has not rendered it yet").
			With(probe.FactReason, "missing")
	case err != nil:
		return probe.Failed(err)
	case file.Protocols == 0:
		r = probe.Found(probe.Fail, "the file defines no protocol: confd has not rendered it yet").
			With(probe.FactReason, "empty")
	default:
		r = probe.Found(probe.OK, "router ID %s, %d BGP peers, written %v ago", cmp.Or(file.RouterID, "not set"),
			len(file.Peers), file.age)
		if len(file.Peers) == 0 {
			r.Status = probe.Info
		}
		r = r.With(FactPeerCount, len(file.Peers)).With(bgp.FactRouterID, file.RouterID).
			With(node.FactAge, int(file.age.Seconds()))
	}
	switch {
	case !b.runs:
		r.Status = probe.Fail
		r.Saw = fmt.Sprintf("%s is not running but %s is (process %d); %s", birdProgram(d), b.beside, b.pid, r.Saw)
		return r.With(bgp.FactRuns, false)
	case r.Status == probe.Fail:
		r.Saw = fmt.Sprintf("%s is running (process %d), but %s", birdProgram(d), b.pid, r.Saw)
		return r
	}
	return judgeLoaded(ctx, d, p.Host, file, r)
}

// judgeLoaded compares a file with the configuration that BIRD has loaded. If BIRD does not answer,
// bird-socket reports it.
func judgeLoaded(ctx context.Context, d node.Daemon, h *probe.Host, file configFile, r probe.Result) probe.Result {
	one, _, cancel := node.Part(ctx, 3)
	defer cancel()
	c, _, err := d.Talk(one, h)
	if err != nil {
		return r
	}
	defer c.Close()
	status, err := c.Status()
	if err != nil {
		return r
	}
	protocols, err := c.Protocols()
	if err != nil {
		return r
	}
	var inBIRD []string
	for _, o := range protocols {
		inBIRD = append(inBIRD, o.Name)
	}
	lacks := without(file.Peers, inBIRD)
	still := without(inBIRD, file.Peers)
	ago, known := bird.Age(status.LastLoaded, status.ServerTime)
	switch differs := len(lacks)+len(still) > 0; {
	case !known:
		return r
	case file.age < reloadPatience && differs:
		r.Status = probe.Info
		r.Saw += ", not loaded yet"
		return r
	case file.age < reloadPatience:
		return r
	case ago > file.age+clockGrain && differs:
		r.Status = probe.Fail
		r = r.With(probe.FactReason, "not-loaded")
		r.Saw += fmt.Sprintf("; not loaded: BIRD last loaded its configuration %v ago", ago.Round(time.Second))
	case ago > file.age+clockGrain:
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf("; BIRD last loaded its configuration %v ago, before that change, with the same peers",
			ago.Round(time.Second))
	case differs:
		r.Status = probe.Info
	}
	if len(lacks) > 0 {
		r.Saw += "; BIRD lacks " + node.Some(lacks)
	}
	if len(still) > 0 {
		r.Saw += "; BIRD also has " + node.Some(still)
	}
	return r
}

// without returns the elements of all that are Calico's sessions and that others lacks.
func without(some, others []string) []string {
	var out []string
	for _, name := range some {
		if calicoName.MatchString(name) && !slices.Contains(others, name) {
			out = append(out, name)
		}
	}
	return out
}

// configFile holds the content of a configuration file, and the time when it was written.
type configFile struct {
	bird.Config
	age time.Duration
}

// readConfig reads a file below another process's root directory. It resolves links below that root.
func readConfig(root, name string) (configFile, error) {
	container := &probe.Host{Root: root}
	f, err := container.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := container.Stat("/"); gone != nil {
			return configFile{}, errors.New("BIRD's process exited during the check")
		}
	}
	if err != nil {
		return configFile{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return configFile{}, fmt.Errorf("looking at %s: %w", name, err)
	}
	text, err := probe.ReadWhole(f, name, maxConfig)
	if err != nil {
		return configFile{}, err
	}
	c, err := bird.ReadConfig(bytes.NewReader(text))
	return configFile{c, max(time.Since(info.ModTime()), 0).Round(time.Second)}, err
}

// birdProcesses finds the daemon for bird and for bird6. If a daemon is not running, it finds a
// process next to it in calico-node's container.
func birdProcesses(h *probe.Host) (map[string]birdProcess, error) {
	all, err := node.ProcessesOf(h, node.InNodesNetwork, func(comm string) bool {
		return slices.Contains([]string{"bird", "bird6", "runsv", "confd", "calico-node", "calico"}, comm)
	})
	if err != nil {
		return nil, err
	}
	found := map[string]birdProcess{}
	for _, p := range all {
		name, b := birdProcessOf(p.Args)
		if old, ok := found[name]; name == "" || ok && (old.runs || !b.runs) {
			continue
		}
		b.pid = p.PID
		found[name] = b
	}
	return found, nil
}

// birdProcessOf returns the daemon to which a command line belongs, or "". BIRD's command line is: bird -R -s
// /var/run/calico/bird.ctl -d -c FILE.
func birdProcessOf(args []string) (string, birdProcess) {
	const folder = "/etc/calico/confd/config/"
	after := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	switch program := filepath.Base(args[0]); {
	case program == "bird" || program == "bird6":
		config := after("-c")
		if !strings.Contains(config, "/calico/") {
			return "", birdProcess{} // not a Calico process
		}
		return program, birdProcess{runs: true, config: config}
	case program == "runsv" && len(args) > 1 && (args[1] == "bird" || args[1] == "bird6"):
		return args[1], birdProcess{beside: "runsv", config: folder + args[1] + ".cfg"}
	case program == "confd",
		program == "calico-node" && (slices.Contains(args, "-confd") || slices.Contains(args, "confd")),
		program == "calico" && slices.Contains(args, "confd"): // calico component node confd
		return "bird", birdProcess{beside: "confd", config: folder + "bird.cfg"}
	}
	return "", birdProcess{}
}
