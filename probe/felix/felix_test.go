package felix

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// replay serves answers of Felix v3.32.1; the files are whole HTTP responses.
func replay(t *testing.T, file string) netip.AddrPort {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(bytes.ReplaceAll(raw, []byte("\r\n"),
		[]byte("\n")))), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body)
	})
}

func serve(t *testing.T, f http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func TestCaptures(t *testing.T) {
	for file, want := range map[string]struct {
		good  bool
		names string
		live  string // of the last component
		ready string
	}{
		"felix-3.32-liveness-healthy.txt": {true,
			"CalculationGraph FelixStartup InternalDataplaneMainLoop", "reporting live", "reporting ready"},
		"felix-3.32-liveness-dataplane-hang.txt": {false,
			"CalculationGraph FelixStartup InternalDataplaneMainLoop", "timed out", "timed out"},
		"felix-3.32-readiness-datastore-unreachable.txt": {false, "FelixStartup", "reporting live",
			"reporting non-ready"},
	} {
		t.Run(file, func(t *testing.T) {
			a := must.Get(Get(t.Context(), replay(t, file), "/liveness"))(t)
			var names []string
			for _, c := range a.Components {
				names = append(names, c.Name)
			}
			last := a.Components[len(a.Components)-1]
			if a.Good() != want.good || !a.FromFelix() || strings.Join(names, " ") != want.names ||
				last.Live != want.live || last.Ready != want.ready {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		code      int
		body      string
		good, own bool
	}{
		"before v3.23":       {204, "", true, true},
		"bad, before v3.23":  {503, "", false, true},
		"some other program": {200, "<html>hello</html>", true, false},
		"nothing there":      {404, "404 page not found", false, false},
		"redirect":           {302, "", false, false},
		"drawn borders": {200,
			"┌───┐\n│ Component │ Timeout │ Liveness │ Readiness │ Detail │\n├───┤\n│ FelixStartup │ - │ reporting live │ reporting ready │  │\n└───┘\n",
			true, true},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			a := must.Get(Get(t.Context(), addr, "/liveness"))(t)
			if a.Code != c.code || a.Good() != c.good || a.FromFelix() != c.own {
				t.Errorf("good %v, Felix %v: %+v", a.Good(), a.FromFelix(), a)
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := netip.MustParseAddrPort(l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Get(ctx, addr, "/liveness"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a port that accepts and is silent: %v", err)
	}
	l.Close()
	if _, err := Get(t.Context(), addr, "/liveness"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a closed port: %v", err)
	}
}

func FuzzParseTable(f *testing.F) {
	for _, name := range []string{"felix-3.32-liveness-healthy.txt", "felix-3.32-liveness-dataplane-hang.txt"} {
		text := must.Get(os.ReadFile("testdata/" + name))(f)
		f.Add(text)
	}
	f.Add([]byte("| COMPONENT | x | | |\n||||\n|a|b|c|"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if slices.ContainsFunc(parseTable(body),
			func(c Component) bool { return strings.ContainsAny(c.Name+c.Live, "|\n") }) {
			t.Errorf("a cell with a border in it: %q", body)
		}
	})
}
