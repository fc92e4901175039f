package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/suite/ask"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestSession runs a session in the documented wire format with the whole suite.
func TestSession(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader(`{"type":"plan","plan":{"run":"1","checks":["node-load","not-known"]}}` + "\n" + `{"type":"end"}` + "\n")
	must.Do(t, command(t.Context(), []string{"session", "--node", "n"}, in, &out))
	d := probe.NewDecoder(&out)
	d.Noise = func(line string) { t.Errorf("not an event: %s", line) }
	var seen []string
	for {
		ev, err := d.Next()
		if err != nil {
			break
		}
		text := string(ev.Type)
		if ev.Result != nil {
			text += " " + ev.Result.Check
		}
		seen = append(seen, text)
	}
	if got := strings.Join(seen, ", "); got != "start, result not-known, result node-load, end" {
		t.Error(got)
	}
}

// TestLife checks that a probe exits after its life, even if its client keeps the connection open and silent.
func TestLife(t *testing.T) {
	began := time.Now()
	silent, _ := pipe(t)
	must.Do(t, command(t.Context(), []string{"session", "--life", "50ms"}, silent, &bytes.Buffer{}))
	if took := time.Since(began); took > probe.Silence/2 {
		t.Errorf("ended after %v", took)
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, command(t.Context(), []string{"run", "--text", "--checks", "host"}, nil, &out))
	for _, want := range []string{"node-load", "node-swap"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing:\n%s", want, &out)
		}
	}
}

func TestBadInput(t *testing.T) {
	for args, says := range map[string]string{
		"":                        "no verb",
		"sesion":                  `unknown verb "sesion"`,
		"session --nodde x":       "nodde",
		"session x":               `unexpected argument "x"`,
		"session --life 0s":       "--life must be positive",
		"run --checks felix-life": "did you mean felix-live?",
	} {
		err := command(t.Context(), strings.Fields(args), strings.NewReader(""), &bytes.Buffer{})
		if !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want a usage error with %q", args, err, says)
		}
	}
	if err := command(t.Context(), []string{"session", "-h"}, nil, &bytes.Buffer{}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("asking for help: %v", err)
	}
}

func TestSuite(t *testing.T) {
	if err := probe.Validate(ask.All()); err != nil {
		t.Error(err)
	}
}

// TestWhatTravels excludes packages from the probe that would make it large, or let it change a cluster.
func TestWhatTravels(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-deps", ".").Output())(t)
	for forbidden, why := range map[string]string{
		"k8s.io/client-go":                                      "the probe never talks to the Kubernetes API",
		"k8s.io/apimachinery":                                   "nothing the probe reads is a Kubernetes object",
		"k8s.io/kubectl":                                        "belongs to the client",
		"k8s.io/cli-runtime":                                    "belongs to the client",
		"github.com/spf13/cobra":                                "two verbs need no framework",
		"github.com/prometheus/client_golang":                   "the probe exports nothing",
		"github.com/calico-probe/calico-probe/injector":         "writing belongs to the client",
		"github.com/calico-probe/calico-probe/internal/cluster": "reading the API belongs to the client",
		"github.com/calico-probe/calico-probe/internal/report":  "the client reports",
	} {
		for dep := range strings.Lines(string(out)) {
			if dep = strings.TrimSpace(dep); dep == forbidden || strings.HasPrefix(dep, forbidden+"/") {
				t.Errorf("the probe links %s: %s", dep, why)
			}
		}
	}
}

// TestMain lets tests start this program as a probe.
func TestMain(m *testing.M) {
	if os.Getenv("AS_PROBE") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestNobodyReads checks that a probe exits even if its output is not read.
func TestNobodyReads(t *testing.T) {
	exe := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe, "session", "--life", "500ms")
	cmd.Env = append(os.Environ(), "AS_PROBE=1")
	many := strings.Repeat(`"no-such-check",`, 5000) // more than a pipe holds
	cmd.Stdin = strings.NewReader(`{"type":"plan","plan":{"checks":[` + strings.TrimSuffix(many, ",") + `]}}` + "\n")
	unread := must.Get(cmd.StdoutPipe())(t)
	defer unread.Close()
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = cmd.Process.Wait() }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it still waits for somebody to read")
		_ = cmd.Process.Kill()
	}
}

// unread is an output that is never read.
type unread struct{ context.Context }

func (u unread) Write([]byte) (int, error) { <-u.Done(); return 0, u.Err() }

// TestGuarded checks that a session with unread output runs only as long as its client beats and its life lasts.
func TestGuarded(t *testing.T) {
	for name, c := range map[string]struct{ beats, life, ends time.Duration }{
		"the client is lost": {10 * time.Minute, time.Hour, 10*time.Minute - probe.BeatEvery + probe.Silence + blocked},
		"its life is over":   {10 * time.Minute, 5 * time.Minute, 5*time.Minute + blocked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				client, feed := io.Pipe()
				in, out, done := guarded(client, unread{ctx}, c.life, func() {
					if took := time.Since(began); took != c.ends {
						t.Errorf("abandoned after %v, want %v", took, c.ends)
					}
					cancel()
				})
				defer done()
				var beating sync.WaitGroup
				defer beating.Wait()
				beating.Go(func() {
					for time.Since(began) < c.beats {
						if _, err := io.WriteString(feed, `{"type":"beat"}`+"\n"); err != nil { // the probe has ended
							return
						}
						time.Sleep(probe.BeatEvery)
					}
				})
				_ = (&probe.Runner{Host: &probe.Host{}}).Serve(ctx, in, out) // of writing
				client.Close()
				if took := time.Since(began); took < c.ends {
					t.Errorf("it ended after %v", took)
				}
			})
		})
	}
}

// TestWireFormat checks that the description has every request and every event of the wire format.
func TestWireFormat(t *testing.T) {
	text := must.Get(os.ReadFile("main.go"))(t)
	for file, own := range map[string]string{"session.go": "Request", "event.go": "Event"} {
		source := must.Get(os.ReadFile("../../probe/" + file))(t)
		types := regexp.MustCompile(own+`(\w+) +`+own+`Type = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
		if len(types) < 7 {
			t.Errorf("%s: %d types found", file, len(types))
		}
		for _, m := range types {
			if clients := []string{"contrast", "cause", "verdict", "typed", "done", "asked", "session",
				"run", "group"}; own == "Event" && slices.Contains(clients, m[2]) {
				continue // written by the client
			}
			if !strings.Contains(string(text), `"type":"`+m[2]+`"`) {
				t.Errorf("%s %q is not described", own, m[2])
			}
		}
	}
}

// TestStartFields checks that the description has every field of a start event that a probe writes.
func TestStartFields(t *testing.T) {
	text := must.Get(os.ReadFile("main.go"))(t)
	for f := range reflect.TypeFor[probe.Start]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		client := slices.Contains([]string{"cluster", "follow_up", "attributes"}, name) // which it writes itself
		if !client && !strings.Contains(string(text), `"`+name+`"`) {
			t.Errorf("%q is not described", name)
		}
	}
}

func TestTooLate(t *testing.T) {
	err := command(t.Context(), []string{"session", "--not-after", "2020-01-01T00:00:00Z"},
		strings.NewReader(""), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "too late") {
		t.Error(err)
	}
}

// pipe is a connection without traffic.
func pipe(t *testing.T) (io.Reader, io.Writer) {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r, w
}

// TestUnlinkByHand checks that only a program that the client uploaded is removed.
func TestUnlinkByHand(t *testing.T) {
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	err = command(t.Context(), []string{"session", "--unlink"}, strings.NewReader(""), io.Discard)
	if !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), "--unlink") {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
