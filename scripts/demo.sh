#!/usr/bin/env bash
# A cluster on this machine and one run on it: what 'make demo' shows.
set -euo pipefail
cd "$(dirname "$0")/.."
bin/sandbox up
bin/sandbox load .cache/probe.tar >/dev/null
KUBECONFIG=$(bin/sandbox kubeconfig)
export KUBECONFIG
echo '$ calico-probe run --node node-a'
status=0
bin/calico-probe run --node node-a || status=$?
cat <<MSG

The cluster stays up. Go on with:
  export KUBECONFIG=$KUBECONFIG
  bin/calico-probe run --node node-b --via ephemeral
  bin/sandbox felix node-a 503     # make Felix fail, and run again
  bin/sandbox down                 # remove everything
MSG
exit $status
