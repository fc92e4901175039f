package kubeletproxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzKubeletListing parses arbitrary text as a folder listing: no name leads out of the folder.
func FuzzKubeletListing(f *testing.F) {
	f.Add(`<pre><a href="pods/">pods/</a><a href="./a%2e%2e">x</a><a href="..">y</a><a href="%2fetc">z</a></pre>`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range entriesIn(text) {
			if name == "" || name == ".." || strings.Contains(name, "/") || len(name) > len(text) {
				t.Errorf("%q", name)
			}
		}
	})
}

// FuzzKubeletRange parses an arbitrary Content-Range: the part never lies outside the file.
func FuzzKubeletRange(f *testing.F) {
	f.Add("bytes 0-99/100", []byte("x"))
	f.Add("bytes 0--1/0", []byte{})
	f.Add("bytes 999999999999999-1/999999999999999", []byte("abc"))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		from, size, err := partOf(kubeletAnswer{header: http.Header{"Content-Range": {header}}, body: body})
		if err == nil && (from < 0 || from+int64(len(body)) > size) {
			t.Errorf("%d bytes from %d of %d", len(body), from, size)
		}
	})
}

// FuzzKubeletMetrics parses arbitrary text as metrics: free space never exceeds the total.
func FuzzKubeletMetrics(f *testing.F) {
	f.Add("machine_memory_bytes{a=\"b\"} 8e+09\ncontainer_memory_working_set_bytes{x=\"\",id=\"/\",} 1e9\n" +
		"container_fs_limit_bytes{device=\"/dev/sda1\",id=\"/\",} 10 \ncontainer_fs_usage_bytes{x=\"\",device=\"/dev/sda1\",id=\"/\",} 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := summaryIn(text)
		if err != nil {
			return
		}
		if len(s.devices) > maxDevices || s.Node.Memory == nil {
			t.Errorf("%d devices, memory %v", len(s.devices), s.Node.Memory)
		}
		for device, fs := range s.devices {
			if fs.AvailableBytes != nil && (fs.CapacityBytes == nil || *fs.AvailableBytes > *fs.CapacityBytes) {
				t.Errorf("%s: %+v", device, fs)
			}
		}
	})
}

// FuzzNodeLog parses arbitrary text as a node log: each line belongs to a service, and none is from the future.
func FuzzNodeLog(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add("Dec 31 23:59:59.000000 node kubelet[811]: E1231 failed\nJan 01 00:00:00.000000 node systemd[1]: kubelet.service: x")
	f.Add("Feb 29 00:00:00.000000 a b[1]: c")
	names := []string{"kubelet", "containerd"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range entriesOf(text, names, now) {
			known := e.Unit == "" || e.Unit == "kubelet.service" || e.Unit == "containerd.service"
			if !known && !strings.HasSuffix(e.Unit, ".service") || e.Time.Sub(now) > 24*time.Hour {
				t.Errorf("%+v", e)
			}
		}
	})
}
