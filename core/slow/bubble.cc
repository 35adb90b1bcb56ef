#include "core/slow/bubble.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kFewestBubbles = 20;
constexpr double kEnoughBatches = 4;  // times the stages
constexpr double kTolerance = 0.05;   // of the step, beyond what is expected,
constexpr double kScatter = 0.25;     // ... and of what is expected: batches are not all as long
constexpr double kStandsOut = 0.1;    // of the step, that an uneven stage idles less than the others
constexpr double kAlike = 0.03;       // of the step: so close to the least idle stage, a stage is as uneven

struct Chain {
  std::vector<std::size_t> rows;  // by stage
  std::size_t batches = 0;
};

class Chains {
 public:
  explicit Chains(const StepTable& table) : table_(table) {
    for (std::size_t row = 0; row < table.messages.size(); ++row)
      for (const auto& [to, count] : table.messages[row].sent) {
        if (to == row) continue;
        next_to_[row].insert(to);
        next_to_[to].insert(row);
      }
  }

  std::vector<Chain> All() const {
    std::vector<Chain> all;
    for (const auto& [row, neighbours] : next_to_)
      if (BeginsWithSends(row))
        if (auto chain = From(row)) all.push_back(std::move(*chain));
    return all;
  }

 private:
  // That the rank has: the ring of one with more messages holds fewer.
  std::size_t StepsOf(std::size_t row) const {
    const std::vector<StepPart>& parts = table_.parts[row];
    return static_cast<std::size_t>(
        std::count_if(parts.begin(), parts.end(), [](const StepPart& part) { return part.duration_ns > 0; }));
  }
  bool BeginsWithSends(std::size_t row) const { return 2 * table_.messages[row].sends_first > StepsOf(row); }
  bool BeginsWithReceives(std::size_t row) const { return 2 * table_.messages[row].receives_first > StepsOf(row); }

  // Along the way of the data, to an end or back to the first stage.
  std::optional<Chain> From(std::size_t first) const {
    std::vector<std::optional<Chain>> found;
    for (const std::size_t second : next_to_.at(first)) {
      Chain chain{{first}, 0};
      for (std::size_t now = second, before = first; now != first;) {
        if (!BeginsWithReceives(now) || chain.rows.size() > table_.ranks.size()) return std::nullopt;
        chain.rows.push_back(now);
        const std::set<std::size_t>& neighbours = next_to_.at(now);
        if (neighbours.size() > 2) return std::nullopt;
        const auto onward =
            std::find_if(neighbours.begin(), neighbours.end(), [&](std::size_t one) { return one != before; });
        if (onward == neighbours.end()) break;
        before = std::exchange(now, *onward);
      }
      if (SetBatches(&chain)) found.push_back(std::move(chain));
    }
    // The other neighbour of the first stage of a ring leads the other way round: its messages go against it.
    return found.size() == 1 || (found.size() == 2 && found[0]->batches > 0) ? found.front() : std::nullopt;
  }

  // As many messages over each link in every step.
  bool SetBatches(Chain* chain) const {
    std::vector<double> each;
    for (std::size_t i = 0; i + 1 < chain->rows.size(); ++i) {
      const auto steps = static_cast<double>(StepsOf(chain->rows[i]));
      const auto& sent = table_.messages[chain->rows[i]].sent;
      const auto to = sent.find(chain->rows[i + 1]);
      each.push_back(to == sent.end() ? 0 : static_cast<double>(to->second) / steps);
    }
    const auto [least, most] = std::minmax_element(each.begin(), each.end());
    if (each.empty() || *most - *least > 0.2 * *most) return false;
    chain->batches = static_cast<std::size_t>(std::lround(*most));
    return chain->batches >= 1 && chain->rows.size() + chain->batches > 3;  // one batch back and forth is no pipeline
  }

  const StepTable& table_;
  std::map<std::size_t, std::set<std::size_t>> next_to_;
};

// Of the time of a rank's steps that it waits for messages, and for the others where the step ends; negative: not
// known.
double IdleOf(const StepTable& table, std::size_t row) {
  double time = 0, idle = 0, kernels = 0, timed = 0, collectives = 0;
  for (const StepPart& part : table.parts[row]) {
    time += static_cast<double>(part.duration_ns);
    idle += static_cast<double>(part.message_ns);
    if (part.exposed_ns > 0) idle += static_cast<double>(part.wait_ns);  // of blocking calls
    kernels += static_cast<double>(part.kernel_wait_ns);
    timed += part.timed;
    collectives += part.collectives;
  }
  const StepMessages& messages = table.messages[row];
  if (time <= 0 || (idle <= 0 && !messages.timed)) return -1;
  if (timed > 0) idle += kernels * collectives / timed;
  return std::min(1.0, (idle + static_cast<double>(messages.wait_ns)) / time);
}

}  // namespace

std::optional<Bubble> FindBubble(const StepTable& table, double least) {
  if (table.steps() < kFewestBubbles) return std::nullopt;
  const std::vector<Chain> chains = Chains(table).All();
  if (chains.empty()) return std::nullopt;
  Bubble found;
  found.stages = chains.front().rows.size();
  found.batches = chains.front().batches;
  found.pipelines = chains.size();
  std::vector<std::vector<double>> idle(found.stages);  // by stage, then by pipeline
  for (const Chain& chain : chains) {
    if (chain.rows.size() != found.stages || chain.batches != found.batches) return std::nullopt;
    for (std::size_t stage = 0; stage < found.stages; ++stage) idle[stage].push_back(IdleOf(table, chain.rows[stage]));
  }
  std::vector<double> of_stage;
  for (std::vector<double>& own : idle) of_stage.push_back(Median(std::move(own)));
  if (*std::min_element(of_stage.begin(), of_stage.end()) < 0) return std::nullopt;
  for (const double share : of_stage) found.idle += share / static_cast<double>(found.stages);
  const auto p = static_cast<double>(found.stages), m = static_cast<double>(found.batches);
  found.expected = (p - 1) / (m + p - 1);
  if (found.idle < least) return std::nullopt;
  const bool few = m < kEnoughBatches * p;
  if (found.idle <= found.expected + std::max(kTolerance, kScatter * found.expected))
    return few ? std::optional(found) : std::nullopt;
  const double lowest = *std::min_element(of_stage.begin(), of_stage.end());
  for (std::size_t stage = 0; stage < found.stages; ++stage)
    if (of_stage[stage] <= lowest + kAlike) found.stage_of.push_back(stage);
  std::vector<double> others;
  for (const double share : of_stage)
    if (share > lowest + kAlike) others.push_back(share);
  if (others.empty() || 2 * found.stage_of.size() > found.stages || Median(others) < lowest + kStandsOut) {
    found.stage_of.clear();  // the batches explain a part, and nothing the rest
    return few && found.expected >= least ? std::optional(found) : std::nullopt;
  }
  for (const Chain& chain : chains)
    for (const std::size_t stage : found.stage_of) found.rows.push_back(chain.rows[stage]);
  std::sort(found.rows.begin(), found.rows.end());
  found.idle_of_rows = lowest;
  return found;
}

}  // namespace ncclwatch::diagnosis
