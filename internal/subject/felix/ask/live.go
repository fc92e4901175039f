package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// felixLiveCheck binds felix.FelixLive to the function that runs it.
var felixLiveCheck = answers.To(felix.FelixLive, func(ctx context.Context, p *probe.Pass) {
	queryFelix(ctx, p, "/liveness")
})
