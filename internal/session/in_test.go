package session

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAsPod requires the pod's search list for names, unless the pod has another one or the user chose one.
func TestAsPod(t *testing.T) {
	t.Parallel()
	pod := func(name string, policy corev1.DNSPolicy) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{DNSPolicy: policy},
		}
	}
	pods := []corev1.Pod{pod("web", corev1.DNSClusterFirst), pod("old", ""), pod("own", corev1.DNSNone)}
	for typed, want := range map[string]string{
		"web dns api": "--of shop api", "old dns -t 1s api": "--of shop -t 1s api", "own dns api": "api",
		"web dns --of other api": "--of other api", "web dns --search api": "--search api", "web ping api": "api",
		"gone dns api": "api",
	} {
		f := strings.Fields(typed)
		if got := strings.Join(asPod(pods, "shop/"+f[0], f[1], f[2:]), " "); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}
