// What a recorded call says, in numbers: rows of `trace` and every export are made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/recording/merge.h"
#include "core/reader/image.h"

namespace ncclwatch::analyzer {

enum class State : std::uint8_t { kEntered, kReturned, kStarted, kFinished, kFailed };
inline constexpr std::string_view kStateNames[] = {"entered", "returned", "started", "finished", "failed"};
constexpr std::string_view Name(State state) { return kStateNames[static_cast<std::size_t>(state)]; }

bool IsState(std::string_view text);

// How far a call has come. `communicator`: that of the call, null where the box does not know it.
struct Standing {
  State state{};
  bool pending = false;  // entered, or launched and known not to have finished
};
Standing StandingOf(const reader::Call& call, const reader::Communicator* communicator);
const reader::Communicator* CommunicatorOf(const reader::BoxImage& box, const reader::Call& call);

struct Facts {
  const reader::BoxImage& box;
  const reader::Call& call;
  const reader::Communicator* communicator;  // null: on none
  std::int64_t time_ns = 0;                  // when the call was entered, CLOCK_REALTIME: comparable between nodes
  std::optional<std::int64_t> returned_ns;   // likewise
  std::int64_t duration_ns = 0;              // inside the call; of a pending one until now
  int rank = -1;                             // job rank; of the communicator where the launcher named none
  std::optional<std::uint64_t> position, count;
  std::optional<std::uint64_t> bytes;  // of count elements; of MPI also where those are of several types
  std::optional<int> root, peer;       // the peer by its rank in the communicator
  std::optional<std::uint64_t> group;  // slot of the outermost ncclGroupStart
  std::string payload;                 // what it carries, as the program said; empty: not known
  // Of MPI.
  std::optional<int> tag;
  std::optional<std::int64_t> completed_ns;  // when the program learned that its request is over, CLOCK_REALTIME
  std::optional<std::uint64_t> waiter;       // slot of the call that waits for its request
  std::optional<std::uint32_t> signature;    // of the basic types of its elements
  Standing standing;
  bool has_result = false;  // of its own
};

// now_ns is CLOCK_MONOTONIC of the box's node, the end of what is still pending.
Facts FactsOf(const reader::BoxImage& box, const reader::Communicator* communicator, const reader::Call& call,
              std::int64_t now_ns);
inline Facts FactsOf(const MergedCall& merged) {
  return FactsOf(merged.piece, merged.communicator, merged.call, merged.now_ns);
}

// Of the numbers in a call; empty: it has none.
inline std::string_view LibraryText(functions::Function function) {
  return functions::IsMpi(function) ? "mpi" : "nccl";
}
std::string OpText(functions::Function function);
std::string ResultText(std::int32_t result);
std::string DtypeText(std::uint8_t dtype);
std::string ReductionText(std::uint8_t reduction);
std::vector<std::string> FlagNames(std::uint32_t flags);  // captured, non_blocking, ...
std::vector<std::string> CommunicatorFlagNames(std::uint32_t flags);

}  // namespace ncclwatch::analyzer
