package do

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/reach"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// reading holds the arguments of logs.
type reading tools.LogsArgs

// readLog prints the output of a container.
func readLog(ctx context.Context, j *probe.Job, a *tools.LogsArgs) probe.Result {
	l := reading(*a)
	conn, socket, err := reach.Runtime(j.Host)
	if err != nil {
		return unread(err)
	}
	defer conn.Close()
	r := runtime{conn, socket}
	list, err := r.containers(ctx)
	if err != nil {
		return r.silent(ctx, err)
	}
	found := named(list, l.Name)
	switch {
	case len(found) == 0:
		return probe.Found(probe.Fail, "the runtime has no container %q; 'ps -a' lists them", l.Name).
			With(probe.FactReason, "missing")
	case len(found) > 1:
		if live := slices.DeleteFunc(slices.Clone(found),
			func(c []container) bool { return c[0].state != cri.ContainerState_CONTAINER_RUNNING }); len(live) == 1 {
			j.Say("(%d containers match, showing the running one: %s)", len(found), live[0][0])
			found = live
			break
		}
		t := newTable(j, "CONTAINER", "STATE", "ID")
		for _, attempts := range found[:min(len(found), maxRows)] {
			t.row(attempts[0].String(), stateName(attempts[0].state), fmt.Sprintf("%.12s", attempts[0].id))
		}
		t.end()
		return probe.Found(probe.Unknown, "%d containers match %q: specify one of them", len(found), l.Name)
	}
	c := found[0][0]
	if l.Before {
		if len(found[0]) < 2 {
			return probe.Found(probe.Fail, "the runtime has no previous attempt of %s", c).
				With(probe.FactReason, "missing")
		}
		c = found[0][1]
	}
	s, err := r.status(ctx, c.id)
	if err != nil {
		return r.silent(ctx, err)
	}
	return l.read(ctx, j, c, s, func(ctx context.Context) (*cri.ContainerStatus, error) { return r.status(ctx, c.id) })
}

// named returns the containers that match a name. It includes all attempts of each container, with the newest first.
func named(list []container, name string) [][]container {
	fits := []func(container) bool{
		func(c container) bool { return c.name == name || c.pod+"/"+c.name == name || c.String() == name },
		func(c container) bool { return c.pod == name || c.namespace+"/"+c.pod == name },
		func(c container) bool { const enough = 4; return len(name) >= enough && strings.HasPrefix(c.id, name) },
	}
	for i, fit := range fits {
		var out [][]container
		for _, c := range list {
			switch n := len(out); {
			case !fit(c):
			case n > 0 && out[n-1][0].String() == c.String() && i < 2: // an ID belongs to a single attempt
				out[n-1] = append(out[n-1], c)
			default:
				out = append(out, []container{c})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// read prints the end of a log file and follows the file.
func (l reading) read(ctx context.Context, j *probe.Job, c container, s *cri.ContainerStatus,
	again func(context.Context) (*cri.ContainerStatus, error)) probe.Result {
	if s.GetLogPath() == "" {
		return probe.Found(probe.Skip, "the runtime keeps no log file of %s", c)
	}
	name := path.Clean(s.GetLogPath())
	f := &followed{host: j.Host, name: name, id: c.id}
	err := f.open()
	switch {
	case errors.Is(err, fs.ErrNotExist) && j.Host.Only != nil:
		return probe.Found(probe.Skip, "the log file of %s leads to a place that this access method does not show: %s", c, name)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "the log file of %s does not exist: %s", c, name).With(probe.FactReason, "missing")
	case err != nil:
		return unread(err)
	}
	defer func() { f.file.Close() }()
	return l.show(ctx, j, f, c, s, again)
}

// show prints the end of an open log file and follows the file.
func (l reading) show(ctx context.Context, j *probe.Job, f *followed, c container, s *cri.ContainerStatus,
	again func(context.Context) (*cri.ContainerStatus, error)) probe.Result {
	out, flush := buffered(j)
	lines, whole, err := f.tail(l.Lines)
	if err != nil {
		return unread(fmt.Errorf("reading %s: %w", f.name, err))
	}
	follow := l.Follow && s.GetState() == cri.ContainerState_CONTAINER_RUNNING
	if !follow { // in that case, no more parts will follow
		f.join.rest(func(line logLine) { lines = append(lines, line) })
		lines = lines[max(len(lines)-l.Lines, 0):]
	}
	nothing := "has logged nothing"
	if whole && len(lines) < l.Lines {
		before, there := earlier(j, f.file.Name(), l.Lines-len(lines))
		if lines = append(before, lines...); there {
			nothing += " since its log was rotated"
		}
	} else if len(lines) < l.Lines {
		j.Say("(only the last %d MiB are read)", maxTail>>20)
		nothing = "has logged a longer line"
	}
	if l.Since > 0 {
		began := time.Now().Add(-l.Since)
		lines = slices.DeleteFunc(lines, func(line logLine) bool {
			at, err := time.Parse(time.RFC3339Nano, line.at)
			return err == nil && at.Before(began)
		})
		nothing = "has logged nothing in the last " + probe.Age(l.Since)
	}
	for _, line := range lines {
		l.print(out, line)
	}
	_ = flush() // if the session is gone, the tool stops
	n := len(lines)
	if follow && n == 0 && l.Lines > 0 {
		j.Say("(so far %s %s)", c, nothing)
	}
	if follow {
		var more int
		var why string
		more, s, why = l.keepOn(ctx, out, flush, f, s, again)
		if n += more; why != "" {
			return probe.Found(probe.Unknown, "%s", why)
		}
	}
	what := several(n, "line") + " of " + c.String()
	if n == 0 && l.Lines > 0 {
		what = c.String() + " " + nothing
		j.Say("(%s)", what)
	}
	if s.GetState() == cri.ContainerState_CONTAINER_EXITED {
		what += ", which " + ended(s, time.Now())
		j.Say("(%s %s)", c, ended(s, time.Now()))
	}
	return probe.Found(probe.OK, "%s", what)
}

// print writes one line for the user.
func (l reading) print(out *probe.Job, line logLine) {
	text := colours.ReplaceAllString(line.text, "")
	if l.Times {
		text = line.at + " " + text
	}
	out.Say("%s", text)
}

// colours matches a terminal's colour codes (ECMA-48).
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// keepOn prints everything that is written from now on. why is the error, if there is one.
func (l reading) keepOn(ctx context.Context, out *probe.Job, flush func() error, f *followed, s *cri.ContainerStatus,
	again func(context.Context) (*cri.ContainerStatus, error)) (n int, _ *cri.ContainerStatus, why string) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	checked := time.Now()
	over := false
	for {
		more, err := f.more(func(line logLine) { n++; l.print(out, line) })
		if ferr := flush(); err == nil {
			err = ferr
		}
		switch {
		case err != nil:
			return n, s, fmt.Sprintf("reading on: %v", err)
		case over && !more:
			f.join.rest(func(line logLine) { n++; l.print(out, line) })
			_ = flush() // if the session is gone, the tool stops
			return n, s, ""
		case ctx.Err() != nil:
			return n, s, ""
		case more:
			continue
		}
		if time.Since(checked) > stateEvery {
			now, err := again(ctx)
			switch {
			case status.Code(err) == codes.NotFound: // the file was removed, so it is complete
				over = true
			case err == nil: // if the runtime does not answer now, that does not stop the log
				s, over = now, now.GetState() == cri.ContainerState_CONTAINER_EXITED
			}
			checked = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
