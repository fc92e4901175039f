package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// TestPcapng reads the written file with a third-party reader.
func TestPcapng(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 123456789)
	packet := func(node, name string, d capture.Direction) Captured {
		return Captured{Node: node, Clock: "the clock of " + node, Packet: capture.Packet{Time: at,
			Interface: node + " " + name, Direction: d, Protocol: 0x0800, Device: 1, From: []byte{2, 0, 0, 0, 0, 1},
			Length: 84, Data: make([]byte, 28)}}
	}
	var out bytes.Buffer
	f := NewPcapng(&out, "host 10.0.0.1")
	for _, p := range []Captured{packet("a", "eth0", capture.Out), packet("b", "eth0", capture.In),
		packet("a", "lo", capture.In), packet("a", "eth0", capture.In)} {
		must.Do(t, f.Packet(p))
	}
	must.Do(t, errors.Join(f.End("a", 0), f.End("b", 17)))
	r := must.Get(pcapgo.NewNgReader(&out, pcapgo.DefaultNgReaderOptions))(t)
	var got []string
	for {
		data, ci, _, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := r.Interface(ci.InterfaceIndex)
		if err != nil || i.LinkType != layers.LinkTypeLinuxSLL || i.Filter != "host 10.0.0.1" {
			t.Fatal(i, err)
		}
		if !ci.Timestamp.Equal(at) || ci.Length != 100 || len(data) != 44 {
			t.Errorf("%+v, %d bytes", ci, len(data))
		}
		got = append(got, i.Name+" "+string('0'+rune(data[1])))
	}
	if want := []string{"a eth0 4", "b eth0 0", "a lo 0", "a eth0 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if i, err := r.Interface(1); err != nil || i.Statistics.PacketsDropped != 17 || i.Comment != "the clock of b" {
		t.Errorf("%+v, %v", i, err)
	}
	var none bytes.Buffer
	must.Do(t, NewPcapng(&none, "").End("a", 0))
	r = must.Get(pcapgo.NewNgReader(&none, pcapgo.DefaultNgReaderOptions))(t)
	if _, _, err := r.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// kept is a sink that keeps lines.
type kept struct {
	lines []string
	fails error
}

func (k *kept) Packet(p Captured) error {
	k.lines = append(k.lines, p.Line)
	return k.fails
}

func (k *kept) End(string, int) error { return nil }

// TestCaptureBelievesNoNode makes a node send arbitrary data.
func TestCaptureBelievesNoNode(t *testing.T) {
	t.Parallel()
	const begin = `{"start":{"vxlan":[4789]}}` + "\n"
	const one = `{"packet":{"t":1,"i":"eth0","d":4,"p":2054,"h":1,"n":28,"b":"AAEIAAYEAAECAAAAAAEKAAABAAAAAAAACgAAAg=="}}` + "\n"
	const good = begin + one
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		says  string
		fails error
		want  string // of the error
		lines int
	}{
		"good":         {good, nil, "", 1},
		"too many":     {good + strings.Repeat(one, 5), nil, "more than the 3", 3},
		"text":         {"\x1b[2J hello\n", nil, "invalid capture from node-a: the data is not a capture", 0},
		"half":         {good[:60], nil, "ended in the middle of a packet", 0},
		"nothing":      {"", nil, "no capture arrived", 0},
		"a full disk":  {good, broken, broken.Error(), 1},
		"goes on":      {good + "FOREVER", nil, "a line of more than", 1},
		"no such name": {"", nil, "", 0},
	} {
		tool := &probe.Tool{Name: tools.Capture.Name, Parse: func([]string) (probe.ToolFunc, error) {
			return func(ctx context.Context, j *probe.Job) probe.Result {
				_, _ = io.WriteString(j.Out, strings.TrimSuffix(c.says, "FOREVER"))
				for strings.HasSuffix(c.says, "FOREVER") && ctx.Err() == nil {
					_, _ = j.Out.Write(bytes.Repeat([]byte("x"), 1000))
				}
				if name == "no such name" {
					return probe.Found(probe.Fail, "there is no such name")
				}
				return probe.Found(probe.OK, "1 packet: eth0 out 1")
			}, nil
		}}
		s, _ := watchedBy(t, func(context.Context) probe.Result { return probe.Found(probe.OK, "") }, tool)
		sink := &kept{fails: c.fails}
		e := &captureEnd{captures: &captures{client: s.client, sink: sink, wanted: &tools.CaptureArgs{
			Options: capture.Options{Packets: 3}}}, node: "node-a", at: s.at}
		e.capture(t.Context())
		err := e.failed(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) ||
			len(sink.lines) != c.lines {
			t.Errorf("%s: %v, want %q, %q", name, err, c.want, sink.lines)
		}
		if c.lines > 0 && c.want == "" && !strings.HasSuffix(sink.lines[0], "node-a eth0 Out ARP, who has 10.0.0.2, tell 10.0.0.1") {
			t.Errorf("%s: %q", name, sink.lines)
		}
	}
}

// TestCaptureExit combines the results of two nodes into one exit code.
func TestCaptureExit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		here, there probe.Status
		want        int
	}{
		{probe.OK, probe.OK, 0}, {probe.OK, probe.Fail, 3}, {probe.Unknown, probe.OK, 5}, {probe.Skip, probe.Fail, 3},
	} {
		cs := &captures{client: testClient(t.Output()), sink: &kept{}}
		err := cs.conclude([]*captureEnd{{node: "a", outcome: probe.Found(c.here, "x")}, {node: "b",
			outcome: probe.Found(c.there, "y")}})
		var exit ui.Exit
		if errors.As(err, &exit); int(exit) != c.want || err == nil != (c.want == 0) {
			t.Errorf("%v and %v: %v", c.here, c.there, err)
		}
	}
}

func TestClockOf(t *testing.T) {
	t.Parallel()
	asked := time.Unix(1000, 0)
	for want, said := range map[string]time.Time{
		"was 2s ahead of the client's":  asked.Add(2050 * time.Millisecond),
		"was 10m0s behind the client's": asked.Add(-10*time.Minute + 50*time.Millisecond),
		"clock of node-a unknown":       {},
	} {
		got := clockOf("node-a", said, asked, asked.Add(100*time.Millisecond))
		if !strings.Contains(got, want) || !said.IsZero() && !strings.Contains(got, "+/- 51ms") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
