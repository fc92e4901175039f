package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	control  = "/var/lib/calico/sandbox" // the folder in which 'sandbox' configures this program
	rendered = "/etc/calico/confd/config"
	sockets  = "/var/run/calico"
	program  = "/bin/calico-node"
)

// start replaces rc.local and runsvdir: start-up, then the services forever.
func start() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM) // ignored until start-up is over, as by the shell that is process 1 there
	startup := exec.Command(program, "-startup")
	startup.Stdout, startup.Stderr = os.Stdout, os.Stderr
	if err := startup.Run(); err != nil {
		fmt.Println("Calico node failed to start")
		os.Exit(1)
	}
	fmt.Println("Calico node started successfully")
	if err := os.MkdirAll(rendered, 0o755); err != nil {
		fatal(err)
	}
	watch := exec.Command(program, "-runsv") // Felix' supervisor is a separate process
	watch.Stdout, watch.Stderr = os.Stdout, os.Stderr
	if err := watch.Start(); err != nil {
		fatal(err)
	}
	for _, bird := range []string{"bird", "bird6"} {
		config, err := os.ReadFile(filepath.Join(control, bird+".cfg"))
		if err != nil {
			fatal(err)
		}
		cfg := filepath.Join(rendered, bird+".cfg")
		if err := os.WriteFile(cfg, config, 0o644); err != nil {
			fatal(err)
		}
		go keep(bird, "/usr/sbin/"+bird, "-R", "-s", filepath.Join(sockets, bird+".ctl"), "-d", "-c", cfg)
	}
	<-stop
}

// startupWork is the CPU time that start-up needs besides its calls, from the logs of Calico on an idle node.
const startupWork = 700 * time.Millisecond

// work returns startupWork, or the value from 'sandbox': a large cluster has more to read.
func work() time.Duration {
	if b, err := os.ReadFile(filepath.Join(control, "start-work")); err == nil {
		if d, err := time.ParseDuration(strings.TrimSpace(string(b))); err == nil {
			return d
		}
	}
	return startupWork
}

// startup is 'calico-node -startup' and what follows it before Felix: as many calls to the datastore as Calico makes,
// one after the other, and the work in between. If the datastore does not answer, it retries forever.
func startup() {
	node := os.Getenv("NODENAME")
	logf("startup/startup.go 553", "Early log level set to info")
	logf("startup/utils.go 137", "Determined node name: %s", node)
	api, err := datastore()
	if err != nil {
		fatal(err)
	}
	crd := "/apis/crd.projectcalico.org/v1/"
	calls := []string{crd + "clusterinformations/default", "/api/v1/nodes/" + node, crd + "ippools",
		crd + "felixconfigurations/default", crd + "bgpconfigurations/default"}
	for i := range startupCalls {
		for {
			err := api(calls[i%len(calls)])
			if err == nil {
				break
			}
			logf("startup/startup.go 433", "Hit error connecting to datastore - retry error=%v", err)
			time.Sleep(time.Second)
		}
		if i == 0 {
			logf("startup/startup.go 121", "Datastore is ready")
		}
		compute(work() / startupCalls)
	}
	if err := os.WriteFile("/var/lib/calico/nodename", []byte(node), 0o644); err != nil {
		fatal(err)
	}
	logf("startup/startup.go 241", "Using node name: %s", node)
}

// startupCalls is how many calls a start of Calico makes.
const startupCalls = 20

// datastore makes calls to the API server's service with the pod's account.
func datastore() (func(path string) error, error) {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	at := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return func(path string) error {
		req, err := http.NewRequest(http.MethodGet, at+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+string(token))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return nil
	}, nil
}

// compute uses this much CPU time. Time during which other processes have the CPU does not count.
func compute(d time.Duration) {
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			fatal(err)
		}
		return time.Duration(u.Utime.Nano())
	}
	sum := make([]byte, sha256.Size)
	for until := spent() + d; spent() < until; {
		for range 100 {
			next := sha256.Sum256(sum)
			copy(sum, next[:])
		}
	}
}

// keep restarts a service a second after it ends, as runit does. While the control folder has a file NAME.down, the
// service stays down and its socket remains.
func keep(name, path string, args ...string) {
	for {
		if _, err := os.Stat(filepath.Join(control, name+".down")); err != nil {
			cmd := exec.Command(path, args...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			logf("service", "%s ended: %v", name, cmd.Run())
		}
		time.Sleep(time.Second)
	}
}

func fatal(err error) {
	logf("startup/startup.go 1", "Terminating: %v", err)
	os.Exit(1)
}
