package injector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/calico-probe/calico-probe/injector/streams"
	"github.com/calico-probe/calico-probe/probe"
)

// open opens the session with a running probe by attach. If the attach connection breaks, a kept session attaches
// again. A session that is not kept reads the rest of the answer from the container's log.
func (p *placement) open(ctx context.Context) *Session {
	s := &Session{created: p.created, image: p.image, remove: p.remove, first: p.options.Patience,
		through: "the API server to the kubelet's port 10250"}
	if p.options.Keep {
		s.startKept(ctx, p.options.Node, p.attach, p.ended, p.options.Note)
	} else {
		s.start(ctx, p.attach, p.openLog)
	}
	return s
}

// readPodLimit bounds a read of the probe's pod while the connection is lost, because it delays reconnecting.
const readPodLimit = 2 * time.Second

// ended returns why the probe is gone, or nil if it may still run.
func (p *placement) ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readPodLimit)
	defer cancel()
	pod, err := p.client.kube.CoreV1().Pods(p.namespace).Get(ctx, p.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s/%s is gone", p.namespace, p.pod)
	}
	if err != nil {
		return nil // state unknown
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s/%s is being deleted", p.namespace, p.pod)
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if t := c.State.Terminated; c.Name == p.container && t != nil {
			return fmt.Errorf("it exited: %s, exit code %d", t.Reason, t.ExitCode)
		}
	}
	// evicted or past its deadline, for example
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return fmt.Errorf("pod %s/%s ended: %s", p.namespace, p.pod,
			strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	return nil
}

// attach connects stdin and stdout to the probe until either side ends.
func (p *placement) attach(ctx context.Context, in io.Reader, out io.Writer) error {
	req := p.client.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(p.pod).
		SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: p.container, Stdin: true, Stdout: true, Stderr: true},
			scheme.ParameterCodec)
	stderr := &lastOutput{}
	var began atomic.Bool // stdin is being read; a broken connection may lose part of it
	stdin := readerFunc(func(b []byte) (int, error) { began.Store(true); return in.Read(b) })
	err := streams.Connect(ctx, p.client.config, req.URL(), stdin, out, stderr)
	if broke := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsConnectionReset(err); broke &&
		!began.Load() { // most connections return at once
		err = streams.Connect(ctx, p.client.config, req.URL(), stdin, out, stderr)
	}
	if err != nil {
		return fmt.Errorf("attached to the probe: %w%s", err, withOutput(stderr.String()))
	}
	if said := stderr.String(); said != "" {
		return fmt.Errorf("the probe ended%s", withOutput(said))
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// openLog opens the container's log from its beginning and follows it.
func (p *placement) openLog(ctx context.Context) (io.ReadCloser, error) {
	r, err := p.client.kube.CoreV1().Pods(p.namespace).GetLogs(p.pod,
		&corev1.PodLogOptions{Container: p.container, Follow: true}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the probe's log: %w", err)
	}
	return r, nil
}

// lastOutput keeps the end of the written output, or the reason for a Go program's crash.
type lastOutput struct {
	mu   sync.Mutex
	text string
	why  string // the first line of a traceback
}

// breaksOff matches the first line of a Go program's crash output. Stacks follow this line.
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

// withOutput appends a program's last output, if any, to a sentence.
func withOutput(words string) string {
	if words == "" {
		return ""
	}
	return ", output: " + words
}
