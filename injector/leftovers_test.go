package injector

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/serverclock"
)

// TestOver requires that only the API server's clock decides whether an object has expired.
func TestOver(t *testing.T) {
	t.Parallel()
	made := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, c := range map[string]struct {
		life, expires string
		now           time.Time
		want          bool
	}{
		"in time":                    {life: "2m10s", now: made.Add(130 * time.Second)},
		"past it":                    {life: "2m10s", now: made.Add(131 * time.Second), want: true},
		"made in the future":         {life: "2m10s", now: made.Add(-time.Hour)},
		"nobody knows":               {life: "2m10s"},
		"an older client":            {expires: "2001-02-03T04:07:16Z", now: made.Add(time.Hour), want: true},
		"ten minutes ahead":          {expires: "2001-02-03T03:57:16Z", now: made.Add(time.Minute)},
		"both, of which one is ours": {life: "2m10s", expires: "2001-01-01T00:00:00Z", now: made.Add(time.Minute)},
		"not a time":                 {life: "soon", expires: "later", now: made.Add(time.Hour)},
		"none":                       {now: made.Add(time.Hour)},
	} {
		m := metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made), Annotations: map[string]string{}}
		for key, value := range map[string]string{annotationLife: c.life, annotationExpires: c.expires} {
			if value != "" {
				m.Annotations[key] = value
			}
		}
		if got := expired(m, c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// apiOf answers every list of pods and Jobs with one object of the given name and labels, and accepts every deletion.
func apiOf(t *testing.T, date string, meta string, deleted *[]string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = []string{date}
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			body := make([]byte, 1<<10)
			n, _ := r.Body.Read(body) // what there is
			*deleted = append(*deleted, r.URL.Path+" "+string(body[:n]))
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
			return
		}
		kind, version := "PodList", "v1"
		if strings.Contains(r.URL.Path, "batch") {
			kind, version = "JobList", "batch/v1"
		}
		items := "[]"
		if !strings.Contains(r.URL.RawQuery, "nowhere") {
			items = "[{\"metadata\":" + meta + "}]"
		}
		_, _ = w.Write([]byte(`{"kind":"` + kind + `","apiVersion":"` + version + `","metadata":{},"items":` + items + `}`))
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestServerClock requires the server's Date to decide what is in use, years away from this machine's clock. Without a
// Date, no object has expired.
func TestServerClock(t *testing.T) {
	t.Parallel()
	const meta = `{"name":"calico-probe-n-7f3a09c1","namespace":"x","uid":"1","creationTimestamp":"2001-02-03T04:05:06Z",
		"labels":{"calico-probe.io/run":"7f3a09c1"},"annotations":{"calico-probe.io/lifetime":"2m10s","calico-probe.io/who":"me\u001b[2J@here"}}`
	for date, c := range map[string]struct{ inUse, unsure bool }{
		"Sat, 03 Feb 2001 04:06:00 GMT": {inUse: true},
		"Sat, 03 Feb 2001 04:16:00 GMT": {},
		"":                              {inUse: true, unsure: true},
	} {
		var deleted []string
		client := apiOf(t, date, meta, &deleted)
		found, err := client.Leftovers(t.Context(), "", "nowhere", func(*corev1.Pod) bool { return false })
		if err != nil || client.Dated() == c.unsure || len(found) != 2 {
			t.Errorf("%q: %v %v", date, found, err)
		}
		for _, l := range found {
			if l.InUse != c.inUse || l.Run != "7f3a09c1" || !strings.Contains(l.String(), "created by me?[2J@here") {
				t.Errorf("%q: %+v", date, l)
			}
			if err := client.Remove(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
		for _, request := range deleted {
			if !strings.Contains(request, `"uid":"1"`) {
				t.Errorf("another object of that name would go too: %s", request)
			}
		}
		if len(deleted) != 2 {
			t.Errorf("%q", deleted)
		}
	}
}

// TestOnlyOurs requires that objects with our labels but a foreign name are omitted.
func TestOnlyOurs(t *testing.T) {
	t.Parallel()
	c := &Client{clock: &serverclock.Clock{}}
	for name, ours := range map[string]bool{
		"calico-probe-n-7f3a09c1": true, "calico-probe-n-12345678": false, "web-7f3a09c1": false, "calico-probe": false,
		"my-calico-probe-7f3a09c1": false,
	} {
		m := metav1.ObjectMeta{
			Name: name, UID: types.UID("1"), Labels: map[string]string{
				labelManaged: managedBy, labelName: managedBy, labelRun: "7f3a09c1",
			},
		}
		if got := len(c.leftover("pod", m, true)) == 1; got != ours {
			t.Errorf("%s: %v", name, got)
		}
	}
}
