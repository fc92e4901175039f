package report

import (
	"io"

	"github.com/calico-probe/calico-probe/probe"
)

// stream passes the events on as one numbered stream.
type stream struct{ enc *probe.Encoder }

func newStream(w io.Writer, _ Options) (Sink, error) {
	return stream{probe.NewEncoder(escaping{w})}, nil
}

func (s stream) Event(ev probe.Event) error {
	s.enc.Encode(ev)
	return s.enc.Err()
}
