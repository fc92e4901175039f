package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/calico-probe/calico-probe/probe"
)

// converse opens the conversation with a probe that runs: by attach, and by the
// container's log once attach breaks.
func (p *placed) converse(ctx context.Context) *Session {
	s := &Session{created: p.created, image: p.image, remove: p.remove, through: "the API server to the kubelet's port 10250"}
	if p.options.Keep {
		s.keep(ctx, p.options.Node, p.attach, p.gone, p.options.Note)
	} else {
		s.talk(ctx, p.attach, p.reread)
	}
	return s
}

// lookLimit is how long one look at the probe's pod may take while there is no line to
// it: the next line must not wait long for it.
const lookLimit = 2 * time.Second

// gone is nil while the probe may still be there, and else why it is not.
func (p *placed) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	pod, err := p.client.kube.CoreV1().Pods(p.namespace).Get(ctx, p.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s/%s is gone", p.namespace, p.pod)
	}
	if err != nil {
		return nil // nobody knows
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s/%s is being deleted", p.namespace, p.pod)
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if t := c.State.Terminated; c.Name == p.container && t != nil {
			return fmt.Errorf("it ended: %s, exit code %d", t.Reason, t.ExitCode)
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded { // evicted, perhaps, or past its deadline
		return fmt.Errorf("pod %s/%s ended: %s", p.namespace, p.pod, strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	return nil
}

// attach carries stdin and stdout until either side ends.
func (p *placed) attach(ctx context.Context, in io.Reader, out io.Writer) error {
	req := p.client.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(p.pod).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: p.container, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	words := &lastWords{}
	if err := p.client.converse(ctx, req.URL(), in, out, words); err != nil {
		return fmt.Errorf("attached to the probe: %w%s", err, saying(words.String()))
	}
	if said := words.String(); said != "" {
		return fmt.Errorf("the probe ended%s", saying(said))
	}
	return nil
}

// converse carries stdin, stdout and stderr of an attach or an exec until either side
// ends, or more than a budget comes beside stdout. It speaks WebSocket, and SPDY to
// servers and proxies that do not, as kubectl does.
func (c *Client) converse(ctx context.Context, at *url.URL, in io.Reader, out, errs io.Writer) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	b := &budget{end: end}
	counted := rest.CopyConfig(c.config)
	counted.WrapTransport = transport.Wrappers(b.webSocket, c.config.WrapTransport) // first: next to the connection
	ws, err := remotecommand.NewWebSocketExecutor(counted, "GET", at.String())
	if err != nil {
		return fmt.Errorf("opening a line: %w", err)
	}
	by, upgrade, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return fmt.Errorf("opening a line: %w", err)
	}
	older, err := remotecommand.NewSPDYExecutorForTransports(briefly{by}, countedSPDY{upgrade, b}, "POST", at)
	if err != nil {
		return fmt.Errorf("opening a line: %w", err)
	}
	exec, err := remotecommand.NewFallbackExecutor(ws, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("opening a line: %w", err)
	}
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: b.output(out), Stderr: errs})
	if why := context.Cause(ctx); errors.Is(why, errBeside) {
		return why
	}
	return err
}

// reread opens the container's log from its beginning and follows it.
func (p *placed) reread(ctx context.Context) (io.ReadCloser, error) {
	r, err := p.client.kube.CoreV1().Pods(p.namespace).GetLogs(p.pod, &corev1.PodLogOptions{Container: p.container, Follow: true}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the probe's log: %w", err)
	}
	return r, nil
}

// lastWords keeps the end of what was written to it.
type lastWords struct {
	mu   sync.Mutex
	text string
}

func (l *lastWords) Write(b []byte) (int, error) {
	const most = 400
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	l.text = l.text[max(0, len(l.text)-most):]
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return probe.OneLine(l.text)
}

// saying ends a sentence with somebody's last words, if there are any.
func saying(words string) string {
	if words == "" {
		return ""
	}
	return ", saying: " + words
}
