package injector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/calico-probe/calico-probe/probe"
)

// open opens the session with a running probe by attach. When the attach connection breaks, a kept session attaches
// again, and any other session reads the rest from the container's log.
func (p *placement) open(ctx context.Context) *Session {
	s := &Session{created: p.created, image: p.image, remove: p.remove, through: "the API server to the kubelet's port 10250"}
	if p.options.Keep {
		s.startKept(ctx, p.options.Node, p.attach, p.ended, p.options.Note)
	} else {
		s.start(ctx, p.attach, p.openLog)
	}
	return s
}

// readPodLimit bounds a read of the probe's pod while the connection is lost: reconnecting must not wait long for it.
const readPodLimit = 2 * time.Second

// ended returns why the probe is gone, nil if it may still run.
func (p *placement) ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readPodLimit)
	defer cancel()
	pod, err := p.client.kube.CoreV1().Pods(p.namespace).Get(ctx, p.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s/%s is gone", p.namespace, p.pod)
	}
	if err != nil {
		return nil // unknown
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s/%s is being deleted", p.namespace, p.pod)
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if t := c.State.Terminated; c.Name == p.container && t != nil {
			return fmt.Errorf("it ended: %s, exit code %d", t.Reason, t.ExitCode)
		}
	}
	// perhaps evicted, or past its deadline
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return fmt.Errorf("pod %s/%s ended: %s", p.namespace, p.pod,
			strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	return nil
}

// attach connects stdin and stdout to the probe's until either side ends.
func (p *placement) attach(ctx context.Context, in io.Reader, out io.Writer) error {
	req := p.client.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(p.pod).
		SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: p.container, Stdin: true, Stdout: true, Stderr: true},
			scheme.ParameterCodec)
	stderr, stdin := &lastOutput{}, &firstRead{Reader: in}
	err := p.client.stream(ctx, req.URL(), stdin, out, stderr)
	if brokeOff(err) && !stdin.began.Load() { // nothing is lost, and most connections are back immediately
		err = p.client.stream(ctx, req.URL(), stdin, out, stderr)
	}
	if err != nil {
		return fmt.Errorf("attached to the probe: %w%s", err, withOutput(stderr.String()))
	}
	if said := stderr.String(); said != "" {
		return fmt.Errorf("the probe ended%s", withOutput(said))
	}
	return nil
}

// firstRead notes when the first reading begins: from then on some of what is read may be lost with the connection.
type firstRead struct {
	io.Reader
	began atomic.Bool
}

func (f *firstRead) Read(b []byte) (int, error) {
	f.began.Store(true)
	return f.Reader.Read(b)
}

// brokeOff reports whether a connection ended without a refusal or a timeout.
func brokeOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsConnectionReset(err)
}

// stream connects stdin, stdout and stderr of an attach or exec until either side ends, or until more than a budget
// arrives besides stdout. It uses WebSocket, and SPDY with servers and proxies that do not support WebSocket, as
// kubectl does.
func (c *Client) stream(ctx context.Context, at *url.URL, in io.Reader, out, errs io.Writer) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	b := &budget{end: end}
	counted := rest.CopyConfig(c.config)
	counted.WrapTransport = transport.Wrappers(b.webSocket, c.config.WrapTransport) // first: next to the connection
	ws, err := remotecommand.NewWebSocketExecutor(counted, "GET", at.String())
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	by, upgrade, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	older, err := remotecommand.NewSPDYExecutorForTransports(briefly{by}, countedSPDY{upgrade, b}, "POST", at)
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	exec, err := remotecommand.NewFallbackExecutor(ws, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: b.output(out), Stderr: errs})
	if why := context.Cause(ctx); errors.Is(why, errBeside) {
		return why
	}
	return err
}

// openLog opens the container's log from its beginning and follows it.
func (p *placement) openLog(ctx context.Context) (io.ReadCloser, error) {
	r, err := p.client.kube.CoreV1().Pods(p.namespace).GetLogs(p.pod,
		&corev1.PodLogOptions{Container: p.container, Follow: true}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the probe's log: %w", err)
	}
	return r, nil
}

// lastOutput keeps the end of what was written to it, or the reason if a Go program crashed.
type lastOutput struct {
	mu   sync.Mutex
	text string
	why  string // the first line of a traceback
}

// breaksOff matches the first line of a Go program's crash output; stacks follow it.
var breaksOff = regexp.MustCompile(`(?m)^(?:panic|fatal error|runtime): .*$`)

func (l *lastOutput) Write(b []byte) (int, error) {
	const most = 400
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	if whole := strings.LastIndexByte(l.text, '\n'); l.why == "" && whole >= 0 {
		why := breaksOff.FindString(l.text[:whole])
		l.why = why[:min(len(why), most)]
	}
	l.text = l.text[max(0, len(l.text)-most):]
	return len(b), nil
}

func (l *lastOutput) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return probe.OneLine(cmp.Or(l.why, l.text))
}

// withOutput appends a program's last output to a sentence, if there is any.
func withOutput(words string) string {
	if words == "" {
		return ""
	}
	return ", output: " + words
}
