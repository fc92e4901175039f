package cluster

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reported is an event of the kubelet's on node-a.
func reported(before time.Duration, reason, message string) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: ago(before),
		Source: corev1.EventSource{Component: "kubelet", Host: "node-a"}}
}

// eventServer answers with some events of one namespace.
func eventServer(t *testing.T, namespace string, events ...corev1.Event) *Client {
	t.Helper()
	kind := metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}
	text, err := json.Marshal(corev1.EventList{TypeMeta: kind, Items: events})
	if err != nil {
		t.Fatal(err)
	}
	return serverOf(t, map[string]string{"/api/v1/namespaces/" + namespace + "/events": string(text)},
		map[string]http.HandlerFunc{})
}
