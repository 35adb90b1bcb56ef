#!/bin/sh
# NCCLWATCH_HOOK=/opt/ncclwatch/hooks/slurm-drain.sh: drains the nodes of a verdict that points at a machine. Slurm must allow
# the caller to do so: run it from a service that reads NCCLWATCH_OUT, or give the operators' account the right.
"$(dirname "$0")/nodes_to_drain.py" | while read -r node reason; do
  scontrol update "nodename=$node" state=drain "reason=$reason"
done
