package probe

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"
)

// Reason reduces the error of a network or socket operation to one word. Results store it as a fact: "refused",
// "timeout", "reset", "closed", "host-unreachable", "net-unreachable", "no-address", "missing", "denied" or "error".
// It inspects error values, never their texts.
func Reason(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "host-unreachable"
	case errors.Is(err, syscall.ENETUNREACH):
		return "net-unreachable"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no-address"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case errors.Is(err, fs.ErrPermission):
		return "denied"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &ne) && ne.Timeout():
		return "timeout"
	}
	return "error"
}

// IsReply reports whether a reason, such as a refusal, proves that packets came back.
func IsReply(reason string) bool {
	return slices.Contains([]string{"refused", "reset", "closed", "rejected"}, reason)
}
