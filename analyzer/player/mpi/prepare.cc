#include "analyzer/player/mpi/prepare.h"

#include <cstring>

#include "analyzer/player/base/values.h"
#include "analyzer/player/mpi/types.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::player {
namespace {

using functions::Function;
using functions::Pattern;
using Bytes = std::vector<char>;

struct Place {
  std::size_t ranks;
  int own, root;
};

Bytes FilledBy(int rank, std::size_t bytes) {
  Bytes filled(bytes);
  FillBytes(filled.data(), bytes, rank);
  return filled;
}

// Rank after rank, each as many bytes, from that byte of the sender on.
void CheckEach(Work* work, std::size_t bytes, std::size_t ranks, std::uint64_t first) {
  work->into.assign(bytes * ranks, kUntouched);
  work->check = [work, bytes, ranks, first] {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (!BytesAre(work->into.data() + rank * bytes, bytes, static_cast<int>(rank), first))
        return Listener::Data::kWrong;
    return Listener::Data::kRight;
  };
}

void CheckOne(Work* work, std::size_t bytes, int sender, std::uint64_t first) {
  work->into.assign(bytes, kUntouched);
  work->check = [work, sender, first] {
    return Reported(BytesAre(work->into.data(), work->into.size(), sender, first));
  };
}

void PrepareMoved(Pattern pattern, const Place& at, Work* work) {
  const std::size_t bytes = work->call.as.bytes, all = bytes * at.ranks;
  const std::uint64_t own_part = static_cast<std::uint64_t>(at.own) * bytes;
  const bool is_root = at.own == at.root;
  switch (pattern) {
    case Pattern::kBroadcast:
      is_root ? void(work->into = FilledBy(at.own, bytes)) : CheckOne(work, bytes, at.root, 0);
      return;
    case Pattern::kGather:
      work->from = FilledBy(at.own, bytes);
      if (is_root) CheckEach(work, bytes, at.ranks, 0);
      return;
    case Pattern::kScatter:
      if (is_root) work->from = FilledBy(at.own, all);
      return CheckOne(work, bytes, at.root, own_part);
    case Pattern::kAllGather: work->from = FilledBy(at.own, bytes); return CheckEach(work, bytes, at.ranks, 0);
    case Pattern::kAllToAll: work->from = FilledBy(at.own, all); return CheckEach(work, bytes, at.ranks, own_part);
    default: return;
  }
}

// `count` of the `all` elements come back, from `first` on, reduced over that many ranks.
struct Reduced {
  std::size_t all, count;
  std::uint64_t first = 0;
  int over;
  bool none = false;  // nothing comes back
};

void PrepareReduced(const Elements& elements, const Reduced& reduced, int own, Work* work) {
  const std::uint8_t dtype = work->call.as.dtype, reduction = work->call.as.reduction;
  work->from.assign(reduced.all * elements.bytes, 0);
  work->into.assign(reduced.count * elements.bytes, kUntouched);
  if (elements.type == MPI_BYTE || NumberBytes(dtype) != elements.bytes) return;
  FillNumbers(work->from.data(), reduced.all, dtype, reduction, own);
  if (reduced.none) return;
  work->check = [work, reduced, dtype, reduction] {
    return CheckReduced(work->into.data(), reduced.count, dtype, reduction, reduced.over, reduced.first);
  };
}

void PrepareReduction(Function function, Pattern pattern, const Place& at, Work* work) {
  const Elements elements = ElementsOf(work->call);
  const auto count = static_cast<std::size_t>(elements.count);
  const auto own = static_cast<std::size_t>(at.own);
  const int ranks = static_cast<int>(at.ranks);
  Reduced reduced{.all = count, .count = count, .over = ranks};
  if (pattern == Pattern::kReduceScatter) reduced = {count * at.ranks, count, own * count, ranks};
  if (pattern == Pattern::kReduce) reduced.none = at.own != at.root;
  if (pattern == Pattern::kScan) reduced.over = function == Function::MPI_Exscan ? at.own : at.own + 1;
  if (reduced.over == 0) reduced.none = true;
  PrepareReduced(elements, reduced, at.own, work);
}

// The amount of all together is what is recorded: each rank gets its even share.
void PrepareEven(Function function, const Place& at, Work* work) {
  const Elements elements = ElementsOf(work->call);
  const auto all = static_cast<std::size_t>(elements.count);
  for (std::size_t rank = 0; rank < at.ranks; ++rank) {
    work->into_places.push_back(static_cast<int>(all * rank / at.ranks));
    work->into_counts.push_back(static_cast<int>(all * (rank + 1) / at.ranks) - work->into_places.back());
  }
  const auto own = static_cast<std::size_t>(at.own);
  const auto first = static_cast<std::size_t>(work->into_places[own]),
             count = static_cast<std::size_t>(work->into_counts[own]);
  if (function == Function::MPI_Reduce_scatter)
    return PrepareReduced(elements, {all, count, first, static_cast<int>(at.ranks)}, at.own, work);
  work->from = FilledBy(at.own, count * elements.bytes);
  work->into.assign(all * elements.bytes, kUntouched);
  work->check = [work, size = elements.bytes] {
    for (std::size_t rank = 0; rank < work->into_counts.size(); ++rank)
      if (!BytesAre(work->into.data() + static_cast<std::size_t>(work->into_places[rank]) * size,
                    static_cast<std::size_t>(work->into_counts[rank]) * size, static_cast<int>(rank)))
        return Listener::Data::kWrong;
    return Listener::Data::kRight;
  };
}

// One part behind the other, each begins with byte 0 of its sender: where it stands in the sender's memory, the
// receiver cannot know. Returns all bytes.
std::size_t Lay(const std::vector<format::Part>& parts, const Call& call, bool in_bytes, std::vector<int>* counts,
                std::vector<int>* places, std::vector<MPI_Datatype>* types) {
  int size = 1;
  if (!in_bytes) MPI_Type_size(TypeOf(parts, call), &size);
  const auto unit = static_cast<std::size_t>(size);
  std::size_t bytes = 0;
  for (const format::Part& part : parts) {
    counts->push_back(static_cast<int>(part.bytes / unit));
    places->push_back(static_cast<int>(bytes / unit));
    types->push_back(MPI_BYTE);
    bytes += part.bytes;
  }
  return bytes;
}

bool PrepareParts(Function function, const Place& at, Work* work) {
  Call& call = work->call;
  const bool lost = call.sends.empty() && call.receives.empty();
  if (lost && (call.as.flags & format::kHasParts) != 0) return false;
  // In place nothing is recorded. All ranks do so together: here they exchange nothing.
  if (lost) call.sends.resize(at.ranks), call.receives.resize(at.ranks);
  const bool in_bytes = function == Function::MPI_Alltoallw;
  work->from.resize(Lay(call.sends, call, in_bytes, &work->from_counts, &work->from_places, &work->from_types));
  work->into.assign(Lay(call.receives, call, in_bytes, &work->into_counts, &work->into_places, &work->into_types),
                    kUntouched);
  std::size_t place = 0;
  for (const format::Part& part : call.sends) {
    FillBytes(work->from.data() + place, part.bytes, at.own);
    place += part.bytes;
  }
  if (function == Function::MPI_Gatherv && at.own != at.root) return true;
  const bool from_root = function == Function::MPI_Scatterv;
  work->check = [work, from_root, root = at.root] {
    std::size_t begins = 0;
    for (std::size_t i = 0; i < work->call.receives.size(); ++i) {
      const std::size_t bytes = work->call.receives[i].bytes;
      const int sender = from_root ? root : static_cast<int>(i);
      if (!BytesAre(work->into.data() + begins, bytes, sender)) return Listener::Data::kWrong;
      begins += bytes;
    }
    return Listener::Data::kRight;
  };
  return true;
}

}  // namespace

bool Prepare(Stage& stage, Function function, Work* work) {
  const Communicator& on = stage.Of(work->call);
  const Place at{on.members.size(), on.own, work->call.as.root};
  const Pattern pattern = functions::PatternOfMpi(function);
  switch (function) {
    case Function::MPI_Gatherv:
    case Function::MPI_Scatterv:
    case Function::MPI_Alltoallv:
    case Function::MPI_Alltoallw:
      if (PrepareParts(function, at, work)) return true;
      stage.problem = "the amounts of a v- or w-variant are missing from the recording";
      return false;
    case Function::MPI_Allgatherv:
    case Function::MPI_Reduce_scatter: PrepareEven(function, at, work); return true;
    default: break;
  }
  switch (pattern) {
    case Pattern::kReduce:
    case Pattern::kAllReduce:
    case Pattern::kScan:
    case Pattern::kReduceScatter: PrepareReduction(function, pattern, at, work); return true;
    default: PrepareMoved(pattern, at, work); return true;
  }
}

}  // namespace ncclwatch::player
