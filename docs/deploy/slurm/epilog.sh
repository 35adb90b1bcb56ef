#!/bin/sh
# slurm.conf: Epilog=/opt/ncclwatch/epilog.sh. Runs as root on each node after a job. What ncclwatch left of the job on this
# node goes to shared storage, and the node's memory is free again. A job that ended well has left nothing.
: "${NCCLWATCH_COLLECT:=/scratch/ncclwatch}" # a folder on shared storage with mode 1777, like /tmp
: "${NCCLWATCH_OUT:=}"                       # the same as in /etc/ncclwatch.conf, if that is a folder on the node's own disk

[ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_UID" ] && [ -n "$SLURMD_NODENAME" ] || exit 0

# The folders are the user's, and root must not follow what lies in them: the rest runs as the user.
collect='
  umask 077
  for run in "$NCCLWATCH_OUT/slurm-$SLURM_JOB_ID".* "/dev/shm/ncclwatch-$SLURM_JOB_UID/slurm-$SLURM_JOB_ID".*; do
    [ -d "$run" ] && [ ! -L "$run" ] && [ -O "$run" ] || continue
    target="$NCCLWATCH_COLLECT/$SLURM_JOB_UID/${run##*/}/$SLURMD_NODENAME"
    mkdir -p "$target" && cp -R -P "$run/." "$target/" && rm -rf "$run"
  done'
export NCCLWATCH_COLLECT NCCLWATCH_OUT
group=$(id -g "$SLURM_JOB_UID") || exit 0
timeout 60 setpriv --reuid="$SLURM_JOB_UID" --regid="$group" --clear-groups sh -c "$collect"
exit 0 # an epilog that fails drains the node, and this is not worth it
