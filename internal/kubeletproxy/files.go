package kubeletproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletLogs reads a node's files below /var/log, which the kubelet serves below /logs/ (net/http, FileServer):
// folder listings, and any range of a file. The kubelet follows symbolic links.
type kubeletLogs struct {
	*Kubelet
	ctx context.Context //nolint:containedctx // of the check that reads, because probe.Host has no context
}

// The end of a file is read first, because most checks do not need more: podlog.Tail's bytes and the bytes before them
// that it also reads. The rest is read in pages.
const (
	tailBytes = logs.ServiceTail + 64<<10
	pageBytes = 128 << 10
)

// at returns the URL path of a file below /var/log.
func (l *kubeletLogs) at(name string) (string, error) {
	rel, ok := strings.CutPrefix(path.Clean(name)+"/", "/var/log/")
	if !ok {
		return "", fmt.Errorf("%s: %w", name, probe.ErrNotVisible)
	}
	return (&url.URL{Path: "/logs/" + strings.TrimSuffix(rel, "/")}).EscapedPath(), nil
}

// linkIn matches a name in a folder listing.
var linkIn = regexp.MustCompile(`<a href="([^"]+)">`)

// ReadDir lists a folder.
func (l *kubeletLogs) ReadDir(name string) ([]string, error) {
	at, err := l.at(name)
	if err != nil {
		return nil, err
	}
	a, err := l.get(l.ctx, strings.TrimSuffix(at, "/")+"/", "", maxText)
	switch {
	case err != nil:
		return nil, err
	case !isListing(a):
		return nil, fmt.Errorf("%s: the kubelet lists no folder there", name)
	case a.cut:
		return nil, fmt.Errorf("%s has too many entries: not listed", name)
	}
	return entriesIn(string(a.body)), nil
}

// entriesIn returns the names of files and folders in a listing.
func entriesIn(listing string) []string {
	var out []string
	for _, m := range linkIn.FindAllStringSubmatch(listing, -1) {
		entry, err := url.PathUnescape(strings.TrimPrefix(strings.TrimSuffix(m[1], "/"), "./"))
		if err == nil && entry != "" && entry != ".." && !strings.Contains(entry, "/") {
			out = append(out, entry)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isListing reports whether an answer is a folder listing.
func isListing(a kubeletAnswer) bool {
	return strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
}

// contentRange matches the range of bytes in an answer, and the file's size. For an empty file, the last byte is -1.
var contentRange = regexp.MustCompile(`^bytes (\d{1,15})-(-1|\d{1,15})/(\d{1,15})$`)

// Open finds a file and reads its end.
func (l *kubeletLogs) Open(name string) (probe.File, error) {
	at, err := l.at(name)
	if err != nil {
		return nil, err
	}
	a, err := l.get(l.ctx, at, fmt.Sprintf("bytes=-%d", tailBytes), tailBytes)
	e, refused := errors.AsType[*KubeletError](err)
	switch {
	case refused && (e.Code == http.StatusMovedPermanently || e.Code == http.StatusBadGateway && !e.ByAPI):
		return nil, fmt.Errorf("%s is a folder and not a file: not read", name) // the kubelet redirects to it
	case err != nil:
		return nil, err
	}
	f := &kubeletFile{logs: l, name: path.Clean(name), at: at, pages: map[int64][]byte{}, tail: a.body,
		size: int64(len(a.body))}
	f.changed, _ = http.ParseTime(a.header.Get("Last-Modified"))
	if a.code == http.StatusPartialContent {
		from, size, err := partOf(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.from, f.size = from, size
	} else if a.cut || isListing(a) && a.header.Get("Last-Modified") == "" {
		return nil, fmt.Errorf("%s: the kubelet does not serve parts of it: not read", name)
	}
	return f, nil
}

// partOf returns the offset of an answer's bytes, and the file's size.
func partOf(a kubeletAnswer) (from, size int64, err error) {
	m := contentRange.FindStringSubmatch(a.header.Get("Content-Range"))
	if m == nil {
		return 0, 0, errors.New("the kubelet serves a part of the file without its range")
	}
	from, _ = strconv.ParseInt(m[1], 10, 64) // the pattern allows at most 15 digits
	size, _ = strconv.ParseInt(m[3], 10, 64)
	if size < from+int64(len(a.body)) {
		return 0, 0, errors.New("the kubelet serves more bytes than the file has")
	}
	return from, size, nil
}

// kubeletFile is a file below /var/log that is read in pages.
type kubeletFile struct {
	logs     *kubeletLogs
	name, at string
	size     int64
	changed  time.Time
	tail     []byte // the bytes from that offset to the end
	from     int64
	pages    map[int64][]byte
}

// ReadAt reads bytes. Later reads of the same page return the same bytes as the first.
func (f *kubeletFile) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off < f.size {
		have, err := f.have(off)
		if err != nil {
			return n, err
		}
		if len(have) == 0 {
			break
		}
		got := copy(b[n:], have)
		n, off = n+got, off+int64(got)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// have returns the bytes that begin at an offset. They may be cached or newly read.
func (f *kubeletFile) have(off int64) ([]byte, error) {
	if off >= f.from {
		return f.tail[min(off-f.from, int64(len(f.tail))):], nil
	}
	at := off / pageBytes
	page, ok := f.pages[at]
	if !ok {
		first, last := at*pageBytes, min((at+1)*pageBytes, f.from)-1
		a, err := f.logs.get(f.logs.ctx, f.at, fmt.Sprintf("bytes=%d-%d", first, last), pageBytes)
		if err != nil {
			return nil, err
		}
		if from, _, err := partOf(a); err != nil || from != first {
			return nil, fmt.Errorf("%s: the kubelet serves other bytes than requested", f.name)
		}
		page = a.body
		f.pages[at] = page
	}
	return page[min(off-at*pageBytes, int64(len(page))):], nil
}

// Close does nothing, because the file does not need an open connection.
func (f *kubeletFile) Close() error { return nil }

// Name returns the path on the node.
func (f *kubeletFile) Name() string { return f.name }

// Stat returns the file's size and time.
func (f *kubeletFile) Stat() (fs.FileInfo, error) { return kubeletInfo{f}, nil }

// kubeletInfo is the fs.FileInfo of a kubeletFile.
type kubeletInfo struct{ f *kubeletFile }

func (i kubeletInfo) Name() string { return path.Base(i.f.name) }

func (i kubeletInfo) Size() int64 { return i.f.size }

func (i kubeletInfo) Mode() fs.FileMode { return 0 }

func (i kubeletInfo) ModTime() time.Time { return i.f.changed }

func (i kubeletInfo) IsDir() bool { return false }

func (i kubeletInfo) Sys() any { return nil }
