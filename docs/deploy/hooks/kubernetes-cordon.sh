#!/bin/sh
# NCCLWATCH_HOOK=/opt/ncclwatch/hooks/kubernetes-cordon.sh: cordons the nodes of a verdict that points at a machine. The pod's
# service account needs `patch` on nodes.
"$(dirname "$0")/nodes_to_drain.py" | while read -r node reason; do
  kubectl cordon "$node" && kubectl annotate --overwrite node "$node" "ncclwatch/reason=$reason"
done
