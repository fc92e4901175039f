package machine

// The probes of pods on guests, in seconds and numbers. Calico's own give calico-node a minute, in which a guest does
// not even finish its start.
var probes = map[string]map[string]float64{
	"livenessProbe":  {"initialDelaySeconds": 120, "periodSeconds": 180, "timeoutSeconds": 120, "failureThreshold": 10},
	"readinessProbe": {"periodSeconds": 60, "timeoutSeconds": 60, "failureThreshold": 3},
	"startupProbe":   {"periodSeconds": 30, "timeoutSeconds": 60, "failureThreshold": 40},
}

// Stretch raises the limits of the probes in an object with a pod template, so that slow pods are not restarted.
func Stretch(object map[string]any) {
	spec := object
	for _, key := range []string{"spec", "template", "spec"} {
		next, ok := spec[key].(map[string]any)
		if !ok {
			return
		}
		spec = next
	}
	containers, ok := spec["containers"].([]any)
	if !ok {
		return
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			continue
		}
		for kind, limits := range probes {
			probe, ok := container[kind].(map[string]any)
			if !ok {
				continue
			}
			if container["name"] == "calico-node" {
				felixAnswers(kind, probe)
			}
			for name, atLeast := range limits {
				if now, _ := probe[name].(float64); now < atLeast { // numbers of JSON
					probe[name] = atLeast
				}
			}
		}
	}
}

// felixAnswers makes Felix's own endpoint answer a probe of calico-node. The command of Calico's probe takes a guest
// half a minute of CPU time, and calico-node itself is then late.
func felixAnswers(kind string, probe map[string]any) {
	path := map[string]string{"livenessProbe": "/liveness", "readinessProbe": "/readiness"}[kind]
	if _, has := probe["exec"]; !has || path == "" {
		return
	}
	delete(probe, "exec")
	probe["httpGet"] = map[string]any{"host": "127.0.0.1", "port": int64(9099), "path": path}
}
