package facts

import "testing"

// TestKillFailed has kubelet messages about pods that cannot be killed.
func TestKillFailed(t *testing.T) {
	t.Parallel()
	const began = `error killing pod: failed to "KillPodSandbox" for "11d1" with KillPodSandboxError: "rpc error: code = Unknown desc = `
	const del = began + `failed to destroy network for sandbox \"ab12\": plugin type=\"calico\" failed (delete): `
	for text, want := range map[string]FailedKill{
		del + `stat /var/lib/calico/nodename: no such file or directory: check that the calico/node container is running and has mounted /var/lib/calico/"`: {EndsNot: EndsNotCNI, Lacks: EndLacksNodename, Plugin: "calico"},
		del + `error getting ClusterInformation: connection is unauthorized: Unauthorized"`:                                                                 {EndsNot: EndsNotCNI, Lacks: endLacksKubeconfig, Plugin: "calico"},
		del + `error getting ClusterInformation: Get \"https://10.96.0.1:443/x\": dial tcp 10.96.0.1:443: connect: connection refused"`:                     {EndsNot: EndsNotCNI, Lacks: endLacksDatastore, Plugin: "calico"},
		del + `netplugin failed with no error message: signal: killed"`:                                                                                     {EndsNot: EndsNotCNI, Plugin: "calico"},
		began + `failed to destroy network for sandbox \"ab12\": plugin type=\"calico\" failed (delete): failed to find plugin \"calico\" in path [/opt/cni/bin]"`: {
			EndsNot: EndsNotCNI, Lacks: endLacksPlugin, Plugin: "calico"},
		began + `failed to destroy network for sandbox \"ab12\": cni plugin not initialized"`: {EndsNot: EndsNotCNI, Lacks: endLacksConfig},
		began + `networkPlugin cni failed to teardown pod \"a_b\" network: could not remove wire"`: {
			EndsNot: EndsNotCNI, Plugin: "cni"},
		`error killing pod: [failed to "KillContainer" for "app" with KillContainerError: "rpc error: code = DeadlineExceeded desc = an error occurs during waiting for container \"x\" to be killed: wait container \"x\": context deadline exceeded", failed to "KillPodSandbox" for "11d1" with KillPodSandboxError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"]`: {
			EndsNot: EndsNotRuntime},
	} {
		got := KillFailed(text)
		if want.Message = got.Message; got != want || got.Message == "" || len(got.Message) >= len(text) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
