// What a box says beside the calls: of other processes, and of the end of its own.
#include <csignal>

#include "ncclwatch/format/lease.h"
#include "tests/jobs/simulator/scene.h"
#include "tests/support/black_box.h"

namespace ncclwatch::jobs {
namespace {

using format::Observed;

// Of its own node's processes a leader sees it first; where nobody is left on a node, the hub does.
void LookAt(const Scene& scene, int rank, int other, std::vector<Seen>* observations) {
  const Job& job = scene.made().job;
  const int node = job.node_of(other);
  const auto note = [&](std::int64_t happened, std::int64_t most, Observed what) {
    if (happened == kNever) return;
    const std::int64_t at =
        happened + scene.chance().Between(kMilli, most, kSeenLate, static_cast<std::uint64_t>(other));
    // By the next leader if this one is just gone, or by the one after that.
    for (std::int64_t later = at; later <= at + 4 * kTakeOver; later += kTakeOver) {
      const int leader = scene.LeaderOf(node, later);
      if (leader == rank) observations->push_back({later, {other, what}});
      if (leader >= 0) return;
    }
    if (what == Observed::kGone && scene.Hub(at + kTakeOver) == rank)
      observations->push_back({at + kTakeOver, {other, Observed::kClosed}});
  };
  if (!HasBox(scene.made(), other)) return note(0, kSecond, Observed::kBoxless);
  note(scene.made().world->rank(other).frozen, 500 * kMilli, scene.made().frozen);
  note(scene.GoneAt(other), 50 * kMilli, Observed::kGone);
}

void FillExit(const Scene& scene, int other, format::Observation* to) {
  to->exit_flags = format::kExitKnown;
  const Ending* ending = scene.EndingOf(other);
  to->exit_signal = ending != nullptr ? ending->signal : 0;
  to->exit_status = ending != nullptr ? ending->status : scene.made().world->rank(other).status;
  if (to->exit_signal == SIGSEGV) to->exit_flags |= format::kExitCore;
  if (ending != nullptr && ending->out_of_memory) to->exit_flags |= format::kExitOutOfMemory;
}

void FillError(const Scene& scene, int rank, std::size_t slot, format::Words* words) {
  const RankHistory& world = scene.made().world->rank(rank);
  const Record& record = world.records[slot];
  const Detail& detail = world.details[slot];
  const std::uint64_t number = words->errors_seen.fetch_add(1);
  format::NcclError& error = words->errors[format::NcclErrorSlot(number)];
  // Of a group: the communicator of its first call.
  std::int32_t comm = record.comm;
  for (std::size_t i = 0; i < slot && comm < 0; ++i)
    if (world.details[i].group == detail.group && world.records[i].comm >= 0) comm = world.records[i].comm;
  error.at_ns = record.returned + scene.Offset(rank);
  error.slot = slot;
  error.function = static_cast<std::uint32_t>(record.function);
  error.communicator = comm < 0 ? format::kNoCommunicator : static_cast<std::uint32_t>(comm);
  error.result = detail.result;
  error.thread = scene.Pid(rank);
  testing::Put(std::string("what NCCL says of it"), error.text);
  error.commit = number + 1;
}

void FillReported(const Scene& scene, const Reported& reported, format::Words* words) {
  const std::uint64_t number = words->errors_seen.fetch_add(1);
  format::NcclError& error = words->errors[format::NcclErrorSlot(number)];
  error.at_ns = reported.at + scene.Offset(reported.rank);
  error.slot = ~std::uint64_t{0};
  error.function = static_cast<std::uint32_t>(Function::ncclCommGetAsyncError);
  error.communicator = static_cast<std::uint32_t>(reported.comm);
  error.result = reported.result;
  error.thread = scene.Pid(reported.rank);
  error.flags = format::kErrorAsynchronous;
  testing::Put(std::string("socketProgress: Connection closed by remote peer"), error.text);
  error.commit = number + 1;
}

void FillRefusal(const Scene& scene, int rank, const Refused& refused, std::int64_t seen, format::Words* words) {
  constexpr std::uint32_t kMemAlloc = 1;  // its row in cuda.def
  const std::uint64_t number = words->allocations_failed.fetch_add(1);
  format::FailedAllocation& failed = words->allocations[number % format::kFailedAllocations];
  failed.at_ns = refused.at + scene.Offset(rank);
  failed.recovered_ns = refused.recovered <= seen ? refused.recovered + scene.Offset(rank) : 0;
  failed.bytes = 2ull << 30;
  failed.free_bytes = 1ull << 30;
  failed.total_bytes = 80ull << 30;
  failed.function = kMemAlloc;
  failed.result = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  failed.device = -1;
  failed.thread = scene.Pid(rank);
  failed.commit = number + 1;
}

void FillSignal(const Scene& scene, int rank, std::int64_t at_ns, int signal, format::Words* words) {
  format::FatalSignal& fatal = words->signals[0];
  fatal.at_ns = at_ns;
  fatal.fault_address = signal == SIGSEGV ? 8 : 0;
  fatal.signal = signal;
  fatal.code = signal == SIGSEGV ? 1 : -6;  // SI_TKILL
  fatal.thread = scene.Pid(rank);
  fatal.commit = words->signals_seen.fetch_add(1) + 1;
}

void FillException(const Scene& scene, int rank, std::int64_t at_ns, const std::string& text, format::Words* words) {
  format::Exception& exception = words->exceptions[0];
  exception.at_ns = at_ns;
  exception.language = static_cast<std::uint32_t>(format::Language::kPython);
  exception.thread = scene.Pid(rank);
  testing::Put(text.substr(0, text.find(':')), exception.type);
  testing::Put(text.substr(text.find(':') + 2), exception.message);
  testing::Put(std::string("/home/user/train.py:57 in step"), exception.place);
  exception.commit = words->exceptions_seen.fetch_add(1) + 1;
}

}  // namespace

std::vector<Seen> ObservationsOf(const Scene& scene, int rank) {
  std::vector<Seen> observations;
  const Job& job = scene.made().job;
  const std::int64_t at = scene.Read(rank);
  const std::int64_t last = scene.LastAct(rank);
  if (scene.LeaderOf(job.node_of(rank), last) != rank) return observations;
  const bool looks_far = scene.Hub(last) == rank;
  for (int other = 0; other < job.shape.ranks; ++other)
    if (looks_far || job.node_of(other) == job.node_of(rank)) LookAt(scene, rank, other, &observations);
  std::erase_if(observations, [&](const Seen& seen) { return seen.first > at; });
  std::stable_sort(observations.begin(), observations.end(),
                   [](const Seen& a, const Seen& b) { return a.first < b.first; });
  return observations;
}

void FillObservations(const Scene& scene, int rank, const std::vector<Seen>& observations, format::Header* header) {
  auto* table = testing::At<format::Observation>(header, header->observations);
  std::uint32_t used = 0;
  for (const auto& [at, what] : observations) {
    format::Observation& to = table[used];
    to.at_ns = at + scene.Offset(rank);
    to.rank = what.first;
    to.pid = scene.Pid(what.first);
    to.start_time = scene.StartTime(what.first);
    to.place = format::PidPlace(scene.BootId(what.first), kPidNamespace);
    to.what = static_cast<std::uint32_t>(what.second);
    if (what.second == Observed::kGone && scene.made().exits_known) FillExit(scene, what.first, &to);
    to.commit = ++used;
  }
  header->observations_used = used;
}

void FillWords(const Scene& scene, int rank, std::int64_t seen, std::size_t head, format::Header* header) {
  auto* words = testing::At<format::Words>(header, header->words);
  const RankHistory& world = scene.made().world->rank(rank);
  words->catching = 1;
  for (std::size_t slot = 0; slot < head; ++slot) {
    const Record& record = world.records[slot];
    const Detail& detail = world.details[slot];
    const bool reported = detail.group == 0 || record.function == Function::ncclGroupEnd;
    if (detail.result != 0 && record.returned <= seen && reported) FillError(scene, rank, slot, words);
  }
  for (const Reported& reported : scene.made().reported)
    if (reported.rank == rank && reported.at <= seen) FillReported(scene, reported, words);
  for (const Refused& refused : world.refused)
    if (refused.at <= seen) FillRefusal(scene, rank, refused, seen, words);
  if (!scene.Gone(rank, seen)) return;
  const Ending* ending = scene.EndingOf(rank);
  const std::int64_t at_ns = scene.GoneAt(rank) - kMicro + scene.Offset(rank);
  const int signal = ending != nullptr ? ending->signal : 0;
  if (signal != 0 && signal != SIGSEGV && signal != SIGABRT) return;  // the others let nobody speak
  format::LastWords& last = header->last_words;
  last.at_ns = at_ns;
  last.signal = signal;
  last.exit_status = ending != nullptr ? ending->status : world.status;
  last.written = 1;
  header->state =
      static_cast<std::uint32_t>(signal != 0 ? format::ProcessState::kCrashing : format::ProcessState::kExiting);
  if (signal != 0) FillSignal(scene, rank, at_ns, signal, words);
  if (ending != nullptr && !ending->exception.empty())
    FillException(scene, rank, at_ns - kMilli, ending->exception, words);
}

}  // namespace ncclwatch::jobs
