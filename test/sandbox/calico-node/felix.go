package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const healthAddress = "localhost:9099"

// felix serves the health port in the mode of the control file.
func felix() {
	var listener net.Listener
	now := ""
	for ; ; time.Sleep(50 * time.Millisecond) {
		mode, err := wanted()
		if err != nil {
			fatal(err)
		}
		if mode == now {
			continue
		}
		if listener != nil {
			listener.Close()
			listener = nil
		}
		if mode != "refuse" {
			if listener, err = net.Listen("tcp", bindTo()); err != nil {
				logf("health/health.go 1", "Health endpoint failed, trying to restart it... %v", err)
				continue
			}
			go answer(listener, mode)
		}
		now = mode
		if err := os.WriteFile(filepath.Join(control, "felix.now"), []byte(mode), 0o644); err != nil {
			fatal(err)
		}
	}
}

// bindTo returns where Felix listens: the host in FelixConfiguration, which 'sandbox' passes on. The probe in health.go
// ignores it, as Calico's does.
func bindTo() string {
	if host, err := os.ReadFile(filepath.Join(control, "felix.host")); err == nil {
		return net.JoinHostPort(strings.TrimSpace(string(host)), "9099")
	}
	return healthAddress
}

func wanted() (string, error) {
	b, err := os.ReadFile(filepath.Join(control, "felix"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "ok", nil
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

func answer(l net.Listener, mode string) {
	if mode == "hang" {
		for { // accepted, but never answered
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/liveness", "/readiness"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			switch mode {
			case "204":
				w.WriteHeader(http.StatusNoContent)
			case "503":
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(table("20s", "timed out", "timed out"))) // the client may be gone
			default:
				_, _ = w.Write([]byte(table("1m30s", "reporting live", "reporting ready")))
			}
		})
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	server.SetKeepAlivesEnabled(false)
	_ = server.Serve(l) // until the mode changes
}

// table is the table of Felix v3.32, with the given state of the data plane loop.
func table(timeout, live, ready string) string {
	line := "+---------------------------+---------+----------------+-----------------+--------+\n"
	row := func(c, t, l, r string) string {
		return fmt.Sprintf("| %-25s | %-7s | %-14s | %-15s |        |\n", c, t, l, r)
	}
	return line + "|         COMPONENT         | TIMEOUT |    LIVENESS    |    READINESS    | DETAIL |\n" + line +
		row("CalculationGraph", "30s", "reporting live", "reporting ready") +
		row("FelixStartup", "-", "reporting live", "reporting ready") +
		row("InternalDataplaneMainLoop", timeout, live, ready) + strings.TrimSuffix(line, "\n")
}
