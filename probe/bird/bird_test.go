package bird_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// recorded serves BIRD's recorded answers and returns the socket.
func recorded(t *testing.T, name string) string {
	socket := birdtest.Socket(t)
	birdtest.Serve(t, socket, "testdata/"+name)
	return socket
}

func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		file, version, router string
		restarting            bool
		waiting               int
		from                  string   // who told it of 10.244.0.64/26
		peers                 []string // name bgp-state neighbour source error
	}{
		{"bird-1.6.8-restarting.txt", "1.6.8", "10.0.0.1", true, 3, "Mesh_127_0_0_2", []string{
			"Mesh_127_0_0_2 Established 127.0.0.2 127.0.0.1 ",
			"Mesh_127_0_0_3 Active 127.0.0.3 invalid IP Socket: Connection refused",
			"Node_127_0_0_4_port_179 Passive 127.0.0.4 invalid IP ",
			"Global_192_0_2_1 Active 192.0.2.1 invalid IP Socket: Network is unreachable",
		}},
		{"bird-2.0.12.txt", "2.0.12", "10.0.0.2", false, 0, "static1", []string{
			"Mesh_127_0_0_1 Established 127.0.0.1 127.0.0.2 ",
			"Mesh_127_0_0_3 Active 127.0.0.3 invalid IP Socket: Connection refused",
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			conn, err := birdtest.Dial(t.Context(), recorded(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s, err := conn.Status()
			if err != nil {
				t.Fatal(err)
			}
			if s.Version != c.version || s.RouterID != c.router || s.Restarting != c.restarting ||
				s.Waiting != c.waiting || s.Daemon != "Daemon is up and running" {
				t.Errorf("%+v", s)
			}
			protocols, err := conn.Protocols()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range protocols {
				if p.Proto == "BGP" {
					got = append(got, fmt.Sprintf("%s %s %s %s %s", p.Name, p.BGP, p.Neighbor, p.Source, p.LastError))
				}
			}
			if !slices.Equal(got, c.peers) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.peers, "\n"))
			}
			routes, err := conn.Routes(netip.MustParsePrefix("10.244.0.64/26"))
			if err != nil || len(routes) != 1 || routes[0].Protocol != c.from || !routes[0].Best ||
				routes[0].Unreachable != c.restarting || routes[0].Prefix.String() != "10.244.0.64/26" {
				t.Errorf("routes: %+v, %v", routes, err)
			}
			if routes, err := conn.Routes(netip.MustParsePrefix("10.9.9.0/24")); err != nil || len(routes) > 0 {
				t.Errorf("a route nobody has: %+v, %v", routes, err)
			}
			if !slices.ContainsFunc(protocols,
				func(p bird.Protocol) bool { return p.Hold == 240*time.Second && p.HoldLeft > 200*time.Second }) {
				t.Errorf("no session's hold timer was read: %+v", protocols)
			}
			if i := slices.IndexFunc(protocols, func(p bird.Protocol) bool { return p.Name == "static1" }); i < 0 ||
				protocols[i].Imported != 1 {
				t.Errorf("static1 imports one route: %+v", protocols)
			}
		})
	}
}

func TestCommandIsRefused(t *testing.T) {
	conn := must.Get(birdtest.Dial(t.Context(), recorded(t, "bird-2.0.12.txt")))(t)
	defer conn.Close()
	if _, err := conn.Ask("show nonsense"); err == nil || !strings.Contains(err.Error(), "9001 syntax error") {
		t.Error(err)
	}
}

// TestNotBIRD distinguishes other programs on the socket from a BIRD with problems.
func TestNotBIRD(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		want error
	}{
		"web server":  {"HTTP/1.1 400 Bad Request\r\n", bird.ErrNotBIRD},
		"other codes": {"0013 Daemon is up\n", bird.ErrNotBIRD},
		"endless":     {strings.Repeat("0001-"+strings.Repeat("x", 1<<16)+"\n", 300), bird.ErrNotBIRD},
		"hangs up":    {"", io.EOF},
		"cut":         {"0001 BIRD 1.6", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			socket := birdtest.Socket(t)
			l := must.Get(net.Listen("unix", socket))(t)
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, c.says) // the other side may hang up first
				conn.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := birdtest.Dial(ctx, socket); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := birdtest.Dial(t.Context(), "/nowhere/bird.ctl"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestAge(t *testing.T) {
	for since, want := range map[string]time.Duration{
		"03:52:01":            time.Hour,
		"03:52:01.500":        time.Hour - 500*time.Millisecond,
		"23:52:01":            5 * time.Hour, // yesterday
		"2026-11-20":          28*time.Hour + 52*time.Minute + time.Second,
		"2026-11-20 04:52:01": 24 * time.Hour,
		"yesterday":           -1,
		"":                    -1,
	} {
		got, ok := bird.Age(since, "2026-11-21 04:52:01")
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v %v, want %v", since, got, ok, want)
		}
	}
	if _, ok := bird.Age("03:52:01", ""); ok {
		t.Error("an age without a clock")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"bird-1.6.8-restarting.txt", "bird-2.0.12.txt"} {
		text := must.Get(os.ReadFile("testdata/" + name))(f)
		f.Add(string(text))
	}
	f.Add("10.0.0.0/8 via 10.0.0.2 on eth0 [Mesh_10_0_0_2 02:11:29 from 10.0.0.3] * (100/0) [i]\n via 10.0.0.4 on eth0 [\n")
	f.Add("1002-Mesh_ BGP a b c d e\n1006- Routes: x imported, -1 exported\n")
	f.Fuzz(func(t *testing.T, text string) {
		var lines []bird.Line
		for i, l := range strings.Split(text, "\n") {
			lines = append(lines, bird.Line{Code: []int{1002, 1006, 1011, 24, 1007}[i%5], Text: l})
		}
		bird.ParseStatus(lines)
		for _, p := range bird.ParseProtocols(lines) {
			if p.Name == "" || p.Proto == "" {
				t.Errorf("a protocol without a name: %+v", p)
			}
			bird.Age(p.Since, "2026-11-21 04:52:01")
		}
		for _, r := range bird.ParseRoutes(lines) {
			if r.Protocol == "" || !r.Prefix.IsValid() {
				t.Errorf("a route from nobody or to nowhere: %+v", r)
			}
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add("router id 10.0.0.1;\nprotocol kernel { }\nprotocol bgp Mesh_10_0_0_2 from t { neighbor 10.0.0.2 as 64512; }\n")
	f.Add("# protocol bgp x\n protocol bgp\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := bird.ReadConfig(strings.NewReader(text))
		if err == nil && len(c.Peers) > c.Protocols {
			t.Errorf("more BGP protocols than protocols: %+v", c)
		}
	})
}
