// What a communicator, window or file of MPI is, and how a process uses MPI.
#pragma once

#include <cstdint>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

bool SpeaksMpi(const CommView& comm);
bool HasTwoGroups(const CommView& comm);
bool IsWindow(const CommView& comm);
bool IsFile(const CommView& comm);
// What MPI_Init_thread has granted, as MPI numbers it.
enum class ThreadLevel : std::int32_t { kSingle = 0, kFunneled = 1, kSerialized = 2, kMultiple = 3 };
ThreadLevel ThreadLevelOf(const Process& process);
// Who calls MPI from several threads may be freed by another one, and makes its calls in no order.
bool OneThread(const Process& process);
// MPI_Finalize may first run callbacks, which may call MPI; they take microseconds.
inline constexpr std::int64_t kFinalizing_ns = 1'000'000'000;
// Its rank has come to MPI_Finalize, and makes no other call any more.
bool HasComeToFinalize(const View& view, const Node& node);

}  // namespace ncclwatch::diagnosis
