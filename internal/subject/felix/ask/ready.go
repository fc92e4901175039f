package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// felixReadyCheck binds felix.FelixReady to the function that runs it.
var felixReadyCheck = answers.To(felix.FelixReady, func(ctx context.Context, p *probe.Pass) {
	queryFelix(ctx, p, "/readiness")
})
