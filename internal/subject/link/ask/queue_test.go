package ask

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tally"
)

func TestJudgeQueue(t *testing.T) {
	t.Parallel()
	of := func(queue string, n uint64) tally.Tally {
		return tally.Tally{Table: tally.Queue, Of: queue, Name: "drops", N: n}
	}
	for name, c := range map[string]struct {
		tallies []tally.Tally
		status  probe.Status
		saw     string
	}{
		"usual":           {[]tally.Tally{of("eth0 fq_codel 0:0", 9), of("eth0 mq 0:0", 9)}, probe.OK, "no queueing discipline limits"},
		"another device":  {[]tally.Tally{of("cali1 tbf 1:0", 9)}, probe.OK, "no queueing discipline limits"},
		"its link tally":  {[]tally.Tally{{Table: tally.Link, Of: "eth0 htb", N: 9}}, probe.OK, "no queueing discipline limits"},
		"limits":          {[]tally.Tally{of("eth0 htb 1:0", 0)}, probe.Info, "htb, which has dropped 0"},
		"drops":           {[]tally.Tally{of("eth0 htb 1:0", 7), of("eth0 pfifo 10:0", 7)}, probe.Info, "dropped 7"},
		"one below drops": {[]tally.Tally{of("eth0 htb 1:0", 0), of("eth0 netem 10:0", 3)}, probe.Info, "netem, which has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := judgeQueue(c.tallies, "eth0"); r.Status != c.status || !strings.Contains(r.Saw, c.saw) {
				t.Errorf("%+v", r)
			}
		})
	}
}
