// Edges of the wait-for graph for the messages of MPI: a receive waits for those who may send to it, all of which would
// do (`choice`), a send that is held for its receiver.
#pragma once

#include "watchdog/diagnosis/mpi_channels.h"
#include "watchdog/diagnosis/waits.h"

namespace ncclwatch::diagnosis {

bool SpeaksMpi(const CommView& comm);
bool HasTwoGroups(const CommView& comm);
bool IsWindow(const CommView& comm);
bool IsFile(const CommView& comm);
bool MakesWindowOrFile(functions::Function function);
// What MPI_Init_thread has granted, as MPI numbers it.
enum class ThreadLevel : std::int32_t { kSingle = 0, kFunneled = 1, kSerialized = 2, kMultiple = 3 };
ThreadLevel ThreadLevelOf(const Process& process);
// Who calls MPI from several threads may be freed by another one, and makes its calls in no order.
bool OneThread(const Process& process);
// MPI_Finalize may first run callbacks, which may call MPI; they take microseconds.
inline constexpr std::int64_t kFinalizing_ns = 1'000'000'000;
// Its rank has come to MPI_Finalize, and makes no other call any more.
bool HasComeToFinalize(const View& view, const Node& node);
// From when on its rank has been held by this call, or by the wait for its request.
std::int64_t HeldSince(const View& view, const Member& member, const reader::Call& call);
void AddMessagesOfMpi(const View& view, WaitGraph* graph);

}  // namespace ncclwatch::diagnosis
