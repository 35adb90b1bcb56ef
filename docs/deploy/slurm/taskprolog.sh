#!/bin/sh
# slurm.conf: TaskProlog=/opt/ncclwatch/taskprolog.sh. Preloads ncclwatch into every task of every job.
# Slurm puts `export NAME=value` from this script's standard output into the task's environment.
: "${NCCLWATCH_PREFIX:=/opt/ncclwatch}"

[ "${NCCLWATCH:-on}" != off ] || exit 0
# The batch script itself is no rank, and what it starts (srun) is none either.
[ "${SLURM_STEP_ID:-}" != "" ] || exit 0
case $SLURM_STEP_ID in 429496729?) exit 0 ;; esac # batch, extern, interactive

library=$NCCLWATCH_PREFIX/lib/ncclwatch/libncclwatch.so
[ -r "$library" ] || exit 0                    # not mounted here: the job runs without it
case ":${LD_PRELOAD:-}:" in *libncclwatch*) exit 0 ;; esac # the user has chosen one, for example for MPI
echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
