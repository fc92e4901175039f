package bundle

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// object is one of JSON.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	must.Do(t, json.Unmarshal([]byte(text), &out))
	return out
}

const token = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJ5In0.c2lnbmF0dXJl"

// TestRules has for each rule an object from which it takes something, and near misses that stay.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, resource string
		own            bool
		object         string
		rule, what     string   // the redacted part
		gone           []string // texts that must not be kept
		stays          []string
	}{
		{"managed fields", "nodes", false, `{"metadata":{"name":"a","managedFields":[{"manager":"kubelet-x"}]}}`, ruleField,
			"metadata.managedFields", []string{"kubelet-x"}, []string{`"name":"a"`}},
		{"what a node is", "nodes", false, `{"status":{"images":[{"names":["corp/app"]}],"nodeInfo":{"machineID":"m1","kernelVersion":"6.1"},"conditions":[{"type":"Ready","message":"ok"}]}}`,
			ruleField, "status.nodeInfo.machineID", []string{"corp/app", "m1"}, []string{"6.1", "Ready", "ok"}},
		{"a tenant's pod", "pods", false, `{"spec":{"nodeName":"a","containers":[{"name":"app","image":"corp/app:1","env":[{"name":"X","value":"v1"}],"args":["--x"]}],"volumes":[{"secret":{"secretName":"s"}}]},"status":{"phase":"Pending","containerStatuses":[{"name":"app","imageID":"corp/app@1","restartCount":3}]}}`,
			ruleField, "spec.containers.image", []string{"corp/app", "v1", "--x", "secretName"},
			[]string{"Pending", `"restartCount":3`, `"nodeName":"a"`}},
		{"Calico's pod", "pods", true, `{"spec":{"containers":[{"name":"calico-node","image":"calico/node:v3.32.1","command":["start"],"livenessProbe":{"httpGet":{"path":"/liveness","httpHeaders":[{"name":"Authorization","value":"Basic abc"}]}}}]}}`,
			ruleField, "spec.containers.livenessProbe.httpGet.httpHeaders", []string{"Basic abc"}, []string{"calico/node:v3.32.1", "/liveness", "start"}},
		{"policy", "networkpolicies", false, `{"spec":{"tier":"default","selector":"app == 'x'","ingress":[{"action":"Allow","source":{"nets":["198.51.100.0/24"]}}]}}`,
			ruleField, "spec.ingress", []string{"198.51.100.0"}, []string{"app == 'x'", "default"}},
		{"an unknown kind", "gadgets", true, `{"kind":"Gadget","metadata":{"name":"g"},"spec":{"x":"y1"}}`, ruleField, "spec", []string{"y1"}, []string{"Gadget"}},

		{"annotation of others", "nodes", false, `{"metadata":{"annotations":{"corp.example/owner":"jane"}}}`, ruleAnnotation,
			"metadata.annotations[corp.example/owner]", []string{"jane"}, []string{"corp.example/owner", removed}},
		{"last-applied", "pods", true, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"x\":\"v1\"}","kubernetes.io/config.mirror":"abc"}}}`,
			ruleAnnotation, "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]", []string{"v1"}, []string{`"kubernetes.io/config.mirror":"abc"`}},
		{"Calico's copy of metadata", "ippools", false, `{"metadata":{"annotations":{"projectcalico.org/metadata":"{\"x\":\"v1\"}","projectcalico.org/IPv4Address":"10.0.0.1/24"}}}`,
			ruleAnnotation, "metadata.annotations[projectcalico.org/metadata]", []string{"v1"}, []string{"10.0.0.1/24"}},
		{"a domain that only ends so", "nodes", false, `{"metadata":{"annotations":{"evil-projectcalico.org/x":"v1","projectcalico.org":"v2"}}}`,
			ruleAnnotation, "metadata.annotations[evil-projectcalico.org/x]", []string{"v1", "v2"}, nil},
		{"of a template", "daemonsets", true, `{"spec":{"template":{"metadata":{"annotations":{"corp.example/x":"v1"},"labels":{"k8s-app":"calico-node"}}}}}`,
			ruleAnnotation, "spec.template.metadata.annotations[corp.example/x]", []string{"v1"}, []string{"calico-node"}},

		{"a variable", "pods", true, `{"spec":{"containers":[{"env":[{"name":"HTTPS_PROXY","value":"http://p:3128"},{"name":"FELIX_HEALTHPORT","value":"9099"},{"name":"K","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}`,
			ruleEnv, "spec.containers.env[HTTPS_PROXY]", []string{"p:3128"}, []string{"9099", "HTTPS_PROXY", `"secretKeyRef":{"key":"k","name":"s"}`}},
		{"a variable of Calico's with a secret's name", "pods", true, `{"spec":{"initContainers":[{"env":[{"name":"CALICO_X_PASSWORD","value":"v1"},{"name":"ETCD_KEY_FILE","value":"/etc/key"}]}]}}`,
			ruleNamed, "spec.initContainers.env[CALICO_X_PASSWORD]", []string{"v1"}, []string{"/etc/key"}},
		{"an address with a password", "daemonsets", true, `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"ETCD_ENDPOINTS","value":"https://u:v1@etcd:2379"},{"name":"IP","value":"autodetect"}]}]}}}}`,
			ruleToken, "spec.template.spec.containers.env[ETCD_ENDPOINTS]", []string{"u:v1"}, []string{"etcd:2379", "autodetect"}},

		{"arguments", "pods", true, `{"spec":{"containers":[{"args":["--token=v1secret9","--password","v2","--v=2","--config=/etc/x"]}]}}`, ruleArgument,
			"spec.containers.args", []string{"v1secret9", `"v2"`}, []string{"--v=2", "--config=/etc/x"}},

		{"a setting", "configmaps", false, `{"data":{"calico_backend":"bird","corp":"v1"},"binaryData":{"x":"djI="}}`, ruleSetting, "data[corp]",
			[]string{"v1", "djI="}, []string{"bird", "corp"}},
		{"the CNI's token", "configmaps", false, `{"data":{"cni_network_config":"{\"type\":\"calico\",\n\"k8s_auth_token\":\"v1abc9\"}"}}`, ruleToken,
			"data[cni_network_config]", []string{"v1abc9"}, []string{"k8s_auth_token", "calico"}},

		{"named like a secret", "felixconfigurations", false, `{"spec":{"fancyToken":"v1","bpfEnabled":true,"interfacePrefix":"cali"}}`, ruleNamed, "spec.fancyToken",
			[]string{"v1"}, []string{"cali", "true"}},
		{"a reference", "bgppeers", false, `{"spec":{"peerIP":"10.0.0.9","password":{"secretKeyRef":{"name":"bgp","key":"md5"}}}}`, "", "", nil,
			[]string{"10.0.0.9", `"key":"md5"`, `"name":"bgp"`}},

		{"a token in a message", "events", false, `{"message":"pull failed: Authorization: Bearer ` + token + `","reason":"Failed"}`, ruleToken, "message",
			[]string{"eyJ"}, []string{"pull failed", "Failed"}},
		{"no token in a message", "events", false, `{"message":"0/3 nodes are available:  1 had an untolerated taint"}`, "", "", nil, []string{"0/3 nodes are available"}},
		{"a token in a label", "nodes", false, `{"metadata":{"labels":{"x":"` + token + `","kubernetes.io/os":"linux"}}}`, ruleToken, "metadata.labels.x",
			[]string{"eyJ"}, []string{"linux"}},
		{"a key in a message", "pods", false, `{"status":{"containerStatuses":[{"state":{"terminated":{"message":"key AKd83jf9AKd83jf9AKd83jf9AKd83jf9aa rejected","exitCode":1}}}]}}`,
			ruleToken, "status.containerStatuses.state.terminated.message", []string{"AKd83jf9"}, []string{"rejected", `"exitCode":1`}},

		{"a long text", "leases", false, `{"spec":{"holderIdentity":"` + strings.Repeat("x", maxText+1) + `"}}`, ruleLong,
			"spec.holderIdentity", []string{strings.Repeat("x", maxText)}, []string{"..."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := object(t, c.object)
			out, left := redacted(in, keptOf(c.resource, c.own))
			text := must.Get(json.Marshal(out))(t)
			if c.rule == "" && len(left) > 0 || c.rule != "" && !slices.Contains(left, Removal{c.rule, c.what}) {
				t.Errorf("left out: %v", left)
			}
			for _, gone := range c.gone {
				if strings.Contains(string(text), gone) {
					t.Errorf("%s is in %s", gone, text)
				}
			}
			for _, stays := range c.stays {
				if !strings.Contains(string(text), stays) {
					t.Errorf("%s is not in %s", stays, text)
				}
			}
			if before, _ := json.Marshal(object(t, c.object)); string(before) != string(mustJSON(t, in)) {
				t.Error("the object was changed")
			}
		})
	}
	for _, r := range rules() {
		if r.Out == "" || r.Stays == "" {
			t.Errorf("%s says not what it does", r.ID)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return b
}

// TestLargeObject requires that only the name of a huge object is kept.
func TestLargeObject(t *testing.T) {
	labels := map[string]any{}
	for i := range 400 {
		labels[strings.Repeat("k", i+1)] = strings.Repeat("v", 1000)
	}
	node := map[string]any{"kind": "Node", "metadata": map[string]any{"name": "a", "labels": labels}}
	out, left, _, err := bounded(node, keptOf("nodes", false))
	if err != nil || len(left) != 1 || left[0].Rule != ruleLarge {
		t.Fatalf("%v, %v", left, err)
	}
	if text := string(mustJSON(t, out)); text != `{"kind":"Node","metadata":{"name":"a"}}` {
		t.Error(text)
	}
}

// TestNothingSteers requires that kept fields contain no control characters.
func TestNothingSteers(t *testing.T) {
	const esc = "\x1b]0;x\a\u202e\x00"
	out, _ := redacted(map[string]any{
		"metadata": map[string]any{"name": esc, "labels": map[string]any{esc: esc},
			"annotations": map[string]any{esc: esc, "kubernetes.io/x": esc}},
		"message": esc, "source": []any{esc, map[string]any{esc: esc}},
	}, keptOf("events", false))
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsAny(v, "\x1b\a\u202e\x00") {
				t.Errorf("%q", v)
			}
		case []any:
			for _, item := range v {
				look(item)
			}
		case map[string]any:
			for name, item := range v {
				look(name)
				look(item)
			}
		}
	}
	look(out)
}
