#include "core/report/advice.h"

namespace ncclwatch::diagnosis {

std::string_view Advice(Kind kind) {
  switch (kind) {
    case Kind::kDeadRank:
      return "let the job survive the loss of a rank: write checkpoints often, and let the launcher restart it "
             "from the last one";
    case Kind::kEarlyExit:
      return "let all ranks agree on the number of steps before the loop: drop or pad the last batches, or use "
             "torch's Join";
    case Kind::kMissingParticipant:
      return "do not let a collective depend on what only one rank knows, and give everything in the loop that waits "
             "for "
             "the outside (data loaders, file systems, services) a timeout of its own";
    case Kind::kOrderMismatch:
      return "call every collective on all ranks of its communicator, in the same order, with no branch on the rank, "
             "on "
             "data or on time around it";
    case Kind::kArgumentMismatch:
      return "make every collective on all ranks, with no branch on the rank around it, and derive its count, data "
             "type "
             "and root from what all ranks share";
    case Kind::kPointToPointMismatch:
      return "derive both sides of an exchange from one schedule, and send the sizes first if only one side knows "
             "them";
    case Kind::kDeadlock:
      return "make calls on several communicators in the same order on all ranks, and put exchanges with several peers "
             "into one group, or into one MPI_Sendrecv";
    case Kind::kInitializationHang:
      return "create all communicators in one place and in the same order on all ranks, with sizes that come from the "
             "launcher, before anything that can fail or take long on one rank";
    case Kind::kFrozenProcess:
      return "keep off its node everything that can stop a rank: other jobs on its processors, swapping, file systems "
             "that block forever";
    case Kind::kDeviceStall:
      return "keep kernels that wait for something (a flag, the host, another stream) off the streams on which "
             "collectives follow";
    case Kind::kTransportStall:
      return "test links and GPUs before a job starts (nccl-tests over its nodes), and leave out nodes that have shown "
             "errors";
    case Kind::kLibraryError:
      return "end a rank at once on an error of NCCL or MPI, so that the others do not wait for it, and keep library, "
             "driver and network plugin the same on all nodes";
    case Kind::kOutOfMemory:
      return "leave room for the largest batch: bound the sizes that vary, run the largest shapes first, and watch the "
             "peak of all ranks";
    case Kind::kMissingFinalize:
      return "call MPI_Finalize on every way out of the program, or MPI_Abort if it cannot go on";
    case Kind::kInvalidArgument:
      return "keep MPI objects in types that free them once and then set them to null, and check computed values "
             "before "
             "you use them as a rank, a tag or a count";
    case Kind::kRequestError:
      return "keep a request, its buffer and the call that completes it together, and complete each request exactly "
             "once";
    case Kind::kResourceLeak:
      return "free every MPI object where its last user is done with it: objects that are made in a loop and never "
             "freed "
             "exhaust the memory, or MPI's own tables";
    case Kind::kEpochError:
      return "put every access to a window between the two calls of one epoch, and let no two ranks touch the same "
             "bytes in it unless both only read or both accumulate with the same operator";
    case Kind::kMessageRace:
      return "use MPI_ANY_SOURCE only for messages that may come in any order: give other messages a tag or a "
             "communicator of their own, or name the sender";
    case Kind::kStepMismatch:
      return "make every call of a step on all ranks of its communicator or on none, with no branch on the rank, on "
             "data "
             "or on time around it; small communicators are no exception";
    case Kind::kStraggler:
      return "give every rank the same amount of work and a host without other jobs, and take hosts and GPUs that stay "
             "slow out of the pool";
    case Kind::kSlowCompute:
      return "keep clocks, power limits and cooling of the GPUs, and the versions of what computes, the same from run "
             "to "
             "run, and watch them";
    case Kind::kSlowCommunication:
      return "measure the links of the nodes before each run (nccl-tests over pairs of them), and leave out those that "
             "have fallen back";
    case Kind::kNumericFault:
      return "check the loss of each rank before the optimizer's step, skip a step whose gradients are not finite, and "
             "keep what the batch of such a step was";
    case Kind::kLossSpike:
      return "clip gradients, and keep which samples went into each step, so that a spike can be traced to its batch";
    case Kind::kReplicaDivergence:
      return "compare a checksum of the parameters over the ranks every few hundred steps, and seed everything random "
             "from what all ranks share";
    case Kind::kMemoryGrowth:
      return "tell memory_allocated and memory_reserved of every step, and run some hundred steps before each long "
             "job: "
             "what grows in them grows on";
    case Kind::kNotLearning:
      return "before each long job let the model learn one batch by heart, and stop a job whose loss is still that of "
             "guessing after some hundred steps";
    case Kind::kLossPlateau: return "let the schedule of the learning rate, or early stopping, follow eval_loss";
    case Kind::kCheckpointOverdue:
      return "let a checkpoint that fails end the job or reach whoever is on call, and count those that are complete";
    case Kind::kStarvedInput:
      return "read ahead in more worker processes than a step needs, keep the data near the node (a local copy or a "
             "cache), and time the input without training";
    case Kind::kBlockingCheckpoint:
      return "write checkpoints beside the training: copy the state to memory, go on, and write it from there "
             "(torch.distributed.checkpoint.async_save), all ranks a part each";
    case Kind::kPipelineBubble:
      return "cut the model so that every stage takes as long as the others, and give each step four times as many "
             "micro-batches as there are stages, or interleave the stages";
    case Kind::kEnvironmentSkew:
      return "start all ranks from one image, let the launcher pass one environment to all of them, and run `ncclwatch "
             "doctor` under it before long jobs";
    case Kind::kRegression: return "keep a recorded run of each release, and compare with it before many GPUs are used";
  }
  return {};
}

std::string ForGood(Kind kind) { return "for good: " + std::string(Advice(kind)); }

void AddAdvice(Finding* finding) {
  if (!Advice(finding->kind).empty()) finding->next_steps.push_back(ForGood(finding->kind));
}

}  // namespace ncclwatch::diagnosis
