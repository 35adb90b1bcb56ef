#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {

using reader::Call;

bool SpeaksMpi(const CommView& comm) {
  return !comm.members.empty() && (comm.members.front().comm->flags & format::kCommMpi) != 0;
}

bool HasTwoGroups(const CommView& comm) {
  return !comm.members.empty() && (comm.members.front().comm->flags & format::kCommInter) != 0;
}

bool IsWindow(const CommView& comm) {
  return !comm.members.empty() && (comm.members.front().comm->flags & format::kCommWindow) != 0;
}

bool IsFile(const CommView& comm) {
  return !comm.members.empty() && (comm.members.front().comm->flags & format::kCommFile) != 0;
}

ThreadLevel ThreadLevelOf(const Process& process) {
  for (const reader::Communicator& comm : process.box->communicators)
    if ((comm.flags & (format::kCommMpi | format::kCommInter)) == format::kCommMpi && comm.parent == 0 &&
        comm.color > 0)
      return static_cast<ThreadLevel>(comm.color);
  return ThreadLevel::kSingle;
}

bool OneThread(const Process& process) {
  // A thread that has not called yet may do so at any time.
  if (ThreadLevelOf(process) == ThreadLevel::kMultiple) return false;
  std::uint32_t thread = 0;
  for (const Call& call : process.box->calls) {
    if (!functions::IsMpi(call.function)) continue;
    if (thread != 0 && call.thread != thread) return false;
    thread = call.thread;
  }
  return true;
}

bool HasComeToFinalize(const View& view, const Node& node) {
  return node.last != nullptr && node.last->function == functions::Function::MPI_Finalize &&
         OneThread(view.process(node));
}

}  // namespace ncclwatch::diagnosis
