package criconn

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// MaxMessage limits the size of one answer. The answer for a thousand containers takes about 2 MB.
const MaxMessage = 16 << 20

// CRIAt returns a client for a socket. The client connects at its first call.
func CRIAt(h *probe.Host, socket string) (client cri.RuntimeServiceClient, hangUp func(), err error) {
	conn, err := RuntimeConn(h, socket)
	if err != nil {
		return nil, nil, err
	}
	return cri.NewRuntimeServiceClient(conn), func() { conn.Close() }, nil
}

// RuntimeConn returns a connection to a runtime's socket. The connection opens at the first call.
func RuntimeConn(h *probe.Host, socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.Dial(ctx, socket) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage)))
	if err != nil {
		return nil, fmt.Errorf("opening the connection: %w", err)
	}
	return conn, nil
}
