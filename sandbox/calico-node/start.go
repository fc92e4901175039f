package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	control  = "/var/lib/calico/sandbox" // what 'sandbox' tells this program
	rendered = "/etc/calico/confd/config"
	sockets  = "/var/run/calico"
)

// start does what rc.local and runsvdir do: start-up, then the services for ever.
func start() {
	node := os.Getenv("NODENAME")
	logf("startup/startup.go 553", "Early log level set to info")
	logf("startup/utils.go 137", "Determined node name: %s", node)
	logf("startup/startup.go 121", "Datastore is ready")
	if err := os.WriteFile("/var/lib/calico/nodename", []byte(node), 0o644); err != nil {
		fatal(err)
	}
	logf("startup/startup.go 241", "Using node name: %s", node)
	fmt.Println("Calico node started successfully")
	if err := os.MkdirAll(rendered, 0o755); err != nil {
		fatal(err)
	}
	go felix()
	for _, bird := range []string{"bird", "bird6"} {
		config, err := os.ReadFile(filepath.Join(control, bird+".cfg"))
		if err != nil {
			fatal(err)
		}
		cfg := filepath.Join(rendered, bird+".cfg")
		if err := os.WriteFile(cfg, config, 0o644); err != nil {
			fatal(err)
		}
		go keep(bird, "-R", "-s", filepath.Join(sockets, bird+".ctl"), "-d", "-c", cfg)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
}

// keep restarts a service a second after it ends, as runit does. While a file
// NAME.down lies in the control folder it stays down, its socket left behind.
func keep(name string, args ...string) {
	for {
		if _, err := os.Stat(filepath.Join(control, name+".down")); err != nil {
			cmd := exec.Command("/usr/sbin/"+name, args...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			logf("service", "%s ended: %v", name, cmd.Run())
		}
		time.Sleep(time.Second)
	}
}

func fatal(err error) {
	logf("startup/startup.go 1", "Terminating: %v", err)
	fmt.Println("Calico node failed to start")
	os.Exit(1)
}
