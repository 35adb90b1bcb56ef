#include "watchdog/diagnosis/advice.h"

namespace ncclwatch::diagnosis {

std::string_view Advice(Kind kind) {
  switch (kind) {
    case Kind::kDeadRank:
      return "let the job survive the loss of a rank: write checkpoints often enough, and let a launcher start it "
             "again from the last one";
    case Kind::kEarlyExit:
      return "let all ranks agree on the number of steps before the loop: drop or pad the last batches, or use "
             "torch's Join";
    case Kind::kMissingParticipant:
      return "let no collective depend on what one rank alone knows, and give whatever waits for the outside within "
             "the loop (data loaders, file systems, services) a time limit of its own";
    case Kind::kOrderMismatch:
      return "make every collective on all ranks of its communicator, in one order: no branch on the rank, on data or "
             "on time around it";
    case Kind::kArgumentMismatch:
      return "derive counts, data types and roots from what all ranks share, or exchange them first; compare model "
             "and configuration once at the start";
    case Kind::kPointToPointMismatch:
      return "derive both sides of an exchange from one schedule, and send the sizes first where only one side knows "
             "them";
    case Kind::kDeadlock:
      return "make calls on several communicators in one order on all ranks, and put exchanges with several peers "
             "into one group, or one MPI_Sendrecv";
    case Kind::kInitializationHang:
      return "create all communicators at one place, in one order, on all ranks, with sizes that come from the "
             "launcher, before anything that can fail or take long on one of them";
    case Kind::kFrozenProcess:
      return "keep away from its node what stops a rank: other jobs on its processors, swapping, file systems that "
             "wait for ever";
    case Kind::kDeviceStall:
      return "keep kernels that wait for something (a flag, the host, another stream) off the streams on which "
             "collectives follow";
    case Kind::kTransportStall:
      return "test links and GPUs before a job starts (nccl-tests over its nodes), and keep nodes that have shown "
             "errors out of it";
    case Kind::kLibraryError:
      return "let an error of NCCL or MPI end its rank at once, so that the others need not wait for it, and keep the "
             "library, driver and network plugin alike on all nodes";
    case Kind::kOutOfMemory:
      return "leave room for the worst batch: bound what varies, run the largest shapes first, and watch the peak of "
             "all ranks";
    case Kind::kMissingFinalize:
      return "call MPI_Finalize on every way out of the program, or MPI_Abort where it cannot go on";
    case Kind::kInvalidArgument:
      return "keep the objects of MPI in types that free them once and leave them null, and check what is computed "
             "before it becomes a rank, a tag or a count";
    case Kind::kRequestError:
      return "keep a request, its buffer and the call that completes it together, and complete each exactly once";
    case Kind::kResourceLeak:
      return "free every object of MPI where its last user is done with it: what is made in a loop and never freed "
             "ends with the memory, or with MPI's own tables";
    case Kind::kEpochError:
      return "put every access to a window between the two calls of one epoch, and let no two ranks touch the same "
             "bytes in it unless both only read or both accumulate alike";
    case Kind::kMessageRace:
      return "let a receive from anybody take only messages that may come in any order: give others a tag or a "
             "communicator of their own, or name the sender";
    case Kind::kStepMismatch:
      return "make every call of a step on all ranks of its communicator or on none: no branch on the rank, on data "
             "or on time around it, on small communicators as on large ones";
  }
  return {};
}

void AddAdvice(Finding* finding) {
  if (const std::string_view advice = Advice(finding->kind); !advice.empty())
    finding->next_steps.push_back("for good: " + std::string(advice));
}

}  // namespace ncclwatch::diagnosis
