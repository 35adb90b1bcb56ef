#include "analyzer/replay/fit.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/recording/message_waits.h"
#include "core/slow/robust.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Pattern;
using reader::Call;

constexpr std::uint64_t kMostFitted = 4'000'000;  // calls: what they wait for is kept in memory
// A wait is late, and not the network's, from so many times the quickest tenth of its kind and so much longer.
constexpr double kLateTimes = 4, kLateNs = 10'000;
constexpr std::size_t kQuantiles = 64;

struct Samples {
  std::vector<double> after_ready_ns;
  // The quicker ones, of which the network alone is the cause.
  std::vector<double> Prompt() const {
    std::vector<double> sorted = after_ready_ns;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty()) return sorted;
    const double late = kLateTimes * sorted[sorted.size() / 10] + kLateNs;
    sorted.erase(std::upper_bound(sorted.begin(), sorted.end(), late), sorted.end());
    return sorted;
  }
};

class Fitter {
 public:
  explicit Fitter(int part) : part_(part), waits_(simulation::Costs().eager) {
    waits_.on_wait = [this](const MessageWaits::Wait& wait) { AddWait(wait); };
  }

  bool full() const { return calls_ >= kMostFitted; }

  void Add(const Piece& piece, std::size_t process) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, const reader::Communicator*> communicators;
    for (const reader::Communicator& one : piece.communicators) communicators[{one.index, one.generation}] = &one;
    for (const Call& call : piece.calls) {
      if (!functions::IsMpi(call.function) || call.returned_ns == 0 || call.result != 0) continue;
      ++calls_;
      const auto found = communicators.find({call.communicator, call.generation});
      const reader::Communicator* const on = found == communicators.end() ? nullptr : found->second;
      waits_.Add(call, on, piece.rank, process, piece.realtime_minus_monotonic_ns);
      if (!on || on->size < 2) continue;
      if (functions::IsMessage(call.function) && (call.flags & format::kRequest) != 0 && Wanted(call.slot))
        overheads_.push_back(static_cast<double>(call.returned_ns - call.entered_ns));
      if (functions::IsCollective(call.function)) AddCollective(*on, call, piece.realtime_minus_monotonic_ns);
    }
  }

  absl::StatusOr<Fit> Result() {
    std::erase_if(collectives_, [](const auto& one) { return one.second.after_ready_ns.empty(); });
    if (overheads_.empty() && messages_by_size_.empty() && collectives_.empty())
      return absl::NotFoundError("no call of MPI that tells what communication costs");
    Fit fit;
    if (!overheads_.empty()) fit.costs.overhead_ns = diagnosis::Median(overheads_);
    FitMessages(&fit);
    FitCollectives(&fit);
    if (absl::Status possible = Possible(fit.costs); !possible.ok()) return possible;
    FitLateness(&fit);
    return fit;
  }

 private:
  using Shape = std::tuple<Pattern, std::uint32_t, std::uint64_t>;  // ranks, bytes
  static constexpr std::uint64_t kNoMessage = UINT64_MAX;
  struct Seen {  // of a wait for messages, from its beginning on
    double ready_ns = 0, took_ns = 0;
    std::uint64_t bytes = kNoMessage;  // of the one that was ready last
  };
  struct Meeting {
    std::int64_t last_ns = 0;
    std::uint32_t ranks = 0;
    std::vector<std::int64_t> returned_ns;  // of wanted calls
  };

  bool Wanted(std::uint64_t slot) const { return part_ == kBothParts || PartOf(slot) == part_; }

  void AddWait(const MessageWaits::Wait& wait) {
    if (!Wanted(wait.slot)) return;
    const auto ready_ns = static_cast<double>(wait.ready_ns == 0 ? 0 : wait.ready_ns - wait.entered_ns);
    const auto took_ns = static_cast<double>(wait.returned_ns - wait.entered_ns);
    seen_.push_back({ready_ns, took_ns, wait.ready_ns == 0 ? kNoMessage : wait.bytes});
    // What nobody held up tells nothing about the network.
    if (ready_ns > 0 && took_ns > ready_ns) messages_by_size_[wait.bytes].after_ready_ns.push_back(took_ns - ready_ns);
  }

  void AddCollective(const reader::Communicator& on, const Call& call, std::int64_t real_ns) {
    const Pattern pattern = functions::PatternOfMpi(call.function);
    // Of the others some ranks wait for nobody.
    const bool all_wait = pattern == Pattern::kBarrier || pattern == Pattern::kAllReduce;
    if (!all_wait || (call.flags & format::kRequest) != 0) return;
    Meeting& meeting = meetings_[{on.id, call.position}];
    meeting.last_ns = std::max(meeting.last_ns, call.entered_ns + real_ns);
    if (Wanted(call.slot)) meeting.returned_ns.push_back(call.returned_ns + real_ns);
    if (++meeting.ranks < on.size) return;
    std::vector<double>& after = collectives_[{pattern, on.size, call.bytes}].after_ready_ns;
    for (const std::int64_t returned_ns : meeting.returned_ns)
      after.push_back(static_cast<double>(returned_ns - meeting.last_ns));
    meetings_.erase({on.id, call.position});
  }

  // From the send's call on: 2 o + L + G * bytes. All sizes count alike for what they deviate by, in parts of it.
  void FitMessages(Fit* fit) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const auto& [bytes, samples] : messages_by_size_) {
      const std::vector<double> prompt = samples.Prompt();
      const double flight = diagnosis::Median(prompt), size = static_cast<double>(bytes);
      const double weight = static_cast<double>(prompt.size()) / (flight * flight);
      n += weight;
      x += weight * size;
      y += weight * flight;
      xx += weight * size * size;
      xy += weight * size * flight;
    }
    if (n == 0) return Guess("latency and bandwidth of messages", fit);
    constexpr std::uint64_t kEnough = 4096;  // bytes between the sizes, to tell them apart
    if (messages_by_size_.rbegin()->first - messages_by_size_.begin()->first >= kEnough)
      fit->costs.byte_ns = (n * xy - x * y) / (n * xx - x * x);
    else
      Guess("bandwidth of messages", fit);
    const double nothing_ns = (y - fit->costs.byte_ns * x) / n;  // a message of no bytes
    fit->costs.latency_ns = nothing_ns > 0 ? std::max(0.0, nothing_ns - 2 * fit->costs.overhead_ns) : nothing_ns;
  }

  double PassedNs(const Shape& shape, const simulation::Costs& costs) const {
    const auto& [pattern, ranks, bytes] = shape;
    const double passes = pattern == Pattern::kAllReduce ? 2 * (ranks - 1.0) / ranks : 0;
    return passes * static_cast<double>(bytes) * costs.byte_ns;
  }

  void FitCollectives(Fit* fit) {
    std::vector<double> steps;
    for (const auto& [shape, samples] : collectives_) {
      const std::vector<double> prompt = samples.Prompt();
      const double left = diagnosis::Median(prompt) - PassedNs(shape, fit->costs) - fit->costs.overhead_ns;
      const int ranks = static_cast<int>(std::get<1>(shape));
      steps.insert(steps.end(), prompt.size(), std::max(0.0, left) / simulation::TreeSteps(ranks));
    }
    if (steps.empty()) return Guess("steps of collectives", fit);
    fit->costs.step_ns = diagnosis::Median(steps);
  }

  static void Guess(const char* what, Fit* fit) {
    if (!fit->guessed.empty()) fit->guessed += ", ";
    fit->guessed += what;
  }

  static absl::Status Possible(const simulation::Costs& costs) {
    constexpr double kLongest_ns = 10e6, kSlowest_byte_ns = 1000, kFastest_byte_ns = 1e-4;
    const auto refuse = [](std::string what) {
      return absl::FailedPreconditionError("these costs cannot be: " + what + "; take --fit from a quieter run");
    };
    if (costs.byte_ns < 0)
      return refuse(fmt::format("larger messages took less time ({:.3g} ns for each further byte)", costs.byte_ns));
    if (costs.byte_ns > kSlowest_byte_ns || costs.byte_ns < kFastest_byte_ns)
      return refuse(fmt::format("a bandwidth of {:.3g} GB/s", 1 / costs.byte_ns));
    if (costs.latency_ns < 0) return refuse(fmt::format("a latency of {:.3g} us", costs.latency_ns / 1e3));
    for (const auto& [name, ns] :
         {std::pair("a latency", costs.latency_ns), std::pair("an overhead", costs.overhead_ns),
          std::pair("a step of a collective", costs.step_ns)})
      if (ns > kLongest_ns) return refuse(fmt::format("{} of {:.3g} ms", name, ns / 1e6));
    return absl::OkStatus();
  }

  // What waits took beyond the costs: the process did not run, or nobody drove the library on.
  void FitLateness(Fit* fit) {
    const double overhead_ns = fit->costs.overhead_ns;
    std::vector<double> late;
    const auto add = [&](double took_ns, double ready_ns, double explained_ns) {
      late.push_back(std::max(0.0, took_ns - std::max(overhead_ns, ready_ns + explained_ns)));
      if (late.back() > kLateTimes * explained_ns + kLateNs) ++fit->late_share;
    };
    for (const Seen& seen : seen_)
      add(seen.took_ns, seen.ready_ns,
          overhead_ns + (seen.bytes == kNoMessage ? 0 : static_cast<double>(fit->costs.MpiMessage(seen.bytes, 1))));
    for (const auto& [shape, samples] : collectives_)
      for (const double after_ns : samples.after_ready_ns)
        add(after_ns, 0,
            overhead_ns + PassedNs(shape, fit->costs) +
                fit->costs.step_ns * simulation::TreeSteps(static_cast<int>(std::get<1>(shape))));
    if (late.empty()) return;
    fit->waits = late.size();
    fit->late_share /= static_cast<double>(late.size());
    for (const double ns : late) fit->late_ns += ns / static_cast<double>(late.size());
    std::sort(late.begin(), late.end());
    for (std::size_t i = 0; i < kQuantiles; ++i) fit->costs.late_ns.push_back(MeanOf(late, i));
  }

  static std::int64_t MeanOf(const std::vector<double>& sorted, std::size_t quantile) {
    const std::size_t begin = quantile * sorted.size() / kQuantiles;
    const std::size_t end = std::max(begin + 1, (quantile + 1) * sorted.size() / kQuantiles);
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += sorted[i];
    return static_cast<std::int64_t>(sum / static_cast<double>(end - begin));
  }

  const int part_;
  MessageWaits waits_;
  std::uint64_t calls_ = 0;
  std::vector<double> overheads_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::uint64_t>, Meeting> meetings_;  // communicator, position
  std::vector<Seen> seen_;
  std::map<std::uint64_t, Samples> messages_by_size_;
  std::map<Shape, Samples> collectives_;
};

}  // namespace

absl::StatusOr<Fit> FitCosts(const Recording& recording, int part) {
  Fitter fitter(part);
  std::vector<reader::Failure> failures;
  for (std::size_t process = 0; process < recording.processes().size(); ++process) {
    PieceReader pieces(recording.processes()[process]);
    for (Piece piece; !fitter.full() && pieces.Next(&piece, &failures);) fitter.Add(piece, process);
  }
  if (!failures.empty()) return absl::DataLossError(failures.front().path + ": " + failures.front().reason);
  return fitter.Result();
}

}  // namespace ncclwatch::analyzer
