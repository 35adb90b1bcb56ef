#include "analyzer/replay/fit.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/calls/mpi_message.h"
#include "core/slow/robust.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer {
namespace {

using reader::Call;

constexpr std::size_t kMostSamples = 200'000;  // of each kind

class Fit {
 public:
  void Add(const Piece& piece) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, const reader::Communicator*> communicators;
    for (const reader::Communicator& one : piece.communicators) communicators[{one.index, one.generation}] = &one;
    for (const Call& call : piece.calls) {
      if (!functions::IsMpi(call.function) || call.returned_ns == 0 || call.result != 0) continue;
      const auto on = communicators.find({call.communicator, call.generation});
      if (on == communicators.end() || on->second->size < 2) continue;
      functions::IsMessage(call.function) ? AddMessage(piece, *on->second, call)
                                          : AddCollective(piece, *on->second, call);
    }
  }

  absl::StatusOr<simulation::Costs> Costs() {
    simulation::Costs costs;
    if (overheads_.empty() && flights_.empty() && collectives_.empty())
      return absl::NotFoundError("no call of MPI that tells what communication costs");
    if (!overheads_.empty()) costs.overhead_ns = diagnosis::Median(overheads_);
    FitMessages(&costs);
    FitCollectives(&costs);
    return costs;
  }

 private:
  using Channel = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;
  struct Ends {
    std::int64_t sent_ns = 0, awaited_ns = 0, received_ns = 0;
    std::uint64_t bytes = 0;
  };
  struct Meeting {
    std::uint32_t ranks = 0;
    std::int64_t last_ns = 0, over_ns = 0;
  };

  void AddMessage(const Piece& piece, const reader::Communicator& on, const Call& call) {
    const bool request = (call.flags & format::kRequest) != 0;
    if (request && overheads_.size() < kMostSamples)
      overheads_.push_back(static_cast<double>(call.returned_ns - call.entered_ns));
    const std::int64_t over = request ? call.completed_ns : call.returned_ns;
    if (call.root < 0 || call.position == format::kNotMatched || over == 0) return;
    const auto peer = static_cast<std::uint32_t>(call.root);
    const std::int64_t real = piece.realtime_minus_monotonic_ns;
    const bool sends = diagnosis::IsSend(call);
    const Channel channel{on.id, call.position, sends ? on.rank : peer, sends ? peer : on.rank};
    Ends& ends = messages_[channel];
    if (sends) {
      ends.sent_ns = call.entered_ns + real;
      ends.bytes = call.bytes;
    } else {
      ends.awaited_ns = call.entered_ns + real;
      ends.received_ns = over + real;
    }
    if (ends.sent_ns == 0 || ends.received_ns == 0) return;
    if (ends.awaited_ns <= ends.sent_ns && flights_[ends.bytes].size() < kMostSamples)
      flights_[ends.bytes].push_back(static_cast<double>(ends.received_ns - ends.sent_ns));
    messages_.erase(channel);
  }

  void AddCollective(const Piece& piece, const reader::Communicator& on, const Call& call) {
    const functions::Pattern pattern = functions::PatternOfMpi(call.function);
    const bool request = (call.flags & format::kRequest) != 0;
    // Of the others some ranks wait for nobody.
    const bool all_wait = pattern == functions::Pattern::kBarrier || pattern == functions::Pattern::kAllReduce;
    if (!all_wait || request || !functions::IsCollective(call.function)) return;
    const Channel key{on.id, call.position, 0, 0};
    Meeting& meeting = meetings_[key];
    const std::int64_t real = piece.realtime_minus_monotonic_ns;
    meeting.last_ns = std::max(meeting.last_ns, call.entered_ns + real);
    meeting.over_ns = std::max(meeting.over_ns, call.returned_ns + real);
    if (++meeting.ranks < on.size) return;
    std::vector<double>& lengths = collectives_[{pattern, on.size, call.bytes}];
    if (lengths.size() < kMostSamples) lengths.push_back(static_cast<double>(meeting.over_ns - meeting.last_ns));
    meetings_.erase(key);
  }

  // flight = L + o + G * bytes, each size counting for as much as it has messages.
  void FitMessages(simulation::Costs* costs) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (auto& [bytes, flights] : flights_) {
      const auto weight = static_cast<double>(flights.size()), size = static_cast<double>(bytes);
      const double flight = diagnosis::Median(flights);
      n += weight;
      x += weight * size;
      y += weight * flight;
      xx += weight * size * size;
      xy += weight * size * flight;
    }
    if (n == 0) return;
    const double spread = n * xx - x * x;
    if (flights_.size() > 1 && spread > 0) costs->byte_ns = std::max(0.0, (n * xy - x * y) / spread);
    costs->latency_ns = std::max(0.0, (y - costs->byte_ns * x) / n - costs->overhead_ns);
  }

  void FitCollectives(simulation::Costs* costs) {
    std::vector<double> steps;
    for (auto& [key, lengths] : collectives_) {
      const auto& [pattern, ranks, bytes] = key;
      const double passes = pattern == functions::Pattern::kAllReduce ? 2 * (ranks - 1.0) / ranks : 0;
      const double left = diagnosis::Median(lengths) - passes * static_cast<double>(bytes) * costs->byte_ns;
      const double step = std::max(0.0, left) / simulation::TreeSteps(static_cast<int>(ranks));
      steps.insert(steps.end(), lengths.size(), step);
    }
    if (!steps.empty()) costs->step_ns = diagnosis::Median(steps);
  }

  std::vector<double> overheads_;
  absl::flat_hash_map<Channel, Ends> messages_;
  absl::flat_hash_map<Channel, Meeting> meetings_;
  std::map<std::uint64_t, std::vector<double>> flights_;  // by bytes
  std::map<std::tuple<functions::Pattern, std::uint32_t, std::uint64_t>, std::vector<double>> collectives_;
};

}  // namespace

absl::StatusOr<simulation::Costs> FitCosts(const Recording& recording) {
  Fit fit;
  std::vector<reader::Failure> failures;
  for (const ProcessRecording& process : recording.processes()) {
    PieceReader pieces(process);
    for (Piece piece; pieces.Next(&piece, &failures);) fit.Add(piece);
  }
  if (!failures.empty()) return absl::DataLossError(failures.front().path + ": " + failures.front().reason);
  return fit.Costs();
}

}  // namespace ncclwatch::analyzer
