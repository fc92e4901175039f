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
			for name, atLeast := range limits {
				if now, _ := probe[name].(float64); now < atLeast { // numbers of JSON
					probe[name] = atLeast
				}
			}
		}
	}
}
