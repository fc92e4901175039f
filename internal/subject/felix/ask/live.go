package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// felixLiveCheck is felix.FelixLive with what answers it.
var felixLiveCheck = answers.To(felix.FelixLive, func(ctx context.Context, p *probe.Pass) {
	askFelix(ctx, p, "/liveness")
})
