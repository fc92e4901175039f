package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// health is the program behind the kubelet's probes, with Calico's messages.
func health(args []string) error {
	for _, a := range args {
		var err error
		switch a {
		case "-felix-live":
			err = felixSays("Felix is not live: liveness", "liveness")
		case "-felix-ready":
			err = felixSays("felix is not ready: readiness", "readiness")
		case "-bird-live":
			_, err = notEstablished("bird")
		case "-bird-ready":
			err = birdReady()
		default:
			err = fmt.Errorf("flag provided but not defined: %s", a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func felixSays(what, path string) error {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + healthAddress + "/" + path)
	if err != nil {
		return fmt.Errorf("%s probe: %w", what, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("%s probe reporting %d", what, resp.StatusCode)
	}
	return nil
}

// birdReady requires one established peer in each family.
func birdReady() error {
	for _, bird := range []string{"bird", "bird6"} {
		missing, err := notEstablished(bird)
		if err != nil {
			return fmt.Errorf("BIRD is not ready: error querying BIRD: unable to connect to %s socket: %w", bird, err)
		}
		if len(missing) > 0 {
			return fmt.Errorf("BIRD is not ready: BGP not established with %s", strings.Join(missing, ","))
		}
	}
	return nil
}

// notEstablished lists the peers without an established session.
func notEstablished(bird string) ([]string, error) {
	c, err := net.DialTimeout("unix", filepath.Join(sockets, bird+".ctl"), 2*time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte("show protocols\n")); err != nil {
		return nil, err
	}
	var missing []string
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "0000 ") {
			return missing, nil
		}
		f := strings.Fields(strings.TrimPrefix(lines.Text(), "1002-"))
		if len(f) > 1 && f[1] == "BGP" && !slices.Contains(f, "Established") {
			missing = append(missing, strings.ReplaceAll(strings.TrimPrefix(f[0], "Mesh_"), "_", "."))
		}
	}
	return nil, fmt.Errorf("the answer ended early: %w", lines.Err())
}
