// Command workload runs in the sandbox's pods: it serves HTTP on port 8080 with its name. Under the name pause, it
// waits forever.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	if filepath.Base(os.Args[0]) != "pause" {
		go serve()
	}
	<-stop
}

func serve() {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
