#include "core/steps/reported_steps.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMostRanks = 1u << 17;

std::int64_t Ns(std::uint32_t units) { return std::int64_t{units} * kReportedUnit_ns; }
std::int64_t NsOf(std::uint32_t units_plus_one) { return units_plus_one == 0 ? -1 : Ns(units_plus_one - 1); }

// Numbers that at least half of the ranks tell, ascending.
template <class Rows>
std::vector<std::uint64_t> CommonNumbers(const Rows& rows) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const auto& row : rows)
    for (const ReportedStep& step : row.rank->steps) ++counts[step.number];
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, count] : counts)
    if (2 * count >= rows.size()) numbers.push_back(number);
  return numbers;
}

const reader::Communicator* EntryOf(const Process& process, std::uint32_t index, std::uint32_t generation) {
  for (const reader::Communicator& one : process.box->communicators)
    if (one.index == index && one.generation == generation) return &one;
  return nullptr;
}

// Where each of `fresh` is among those that are known; unknown ones are added.
template <class Value>
std::vector<std::size_t> PlacesIn(const std::vector<Value>& fresh, std::vector<Value>* known) {
  std::vector<std::size_t> places;
  for (const Value& one : fresh) {
    auto at = std::find(known->begin(), known->end(), one);
    if (at == known->end()) at = known->insert(at, one);
    places.push_back(static_cast<std::size_t>(at - known->begin()));
  }
  return places;
}

// Writes one rank's steps into the join.
class RowFiller {
 public:
  RowFiller(const Process& process, const ReportedRank& facts, StepJoin* join, MessageCounter* counter)
      : process_(process), facts_(facts), join_(join), counter_(counter) {
    for (const ReportedKind& kind : facts.kinds) {
      const reader::Communicator* const entry = EntryOf(process, kind.channel.communicator, kind.channel.generation);
      const CommView* const comm = entry ? join->CommOf(entry->id) : nullptr;
      entries_.push_back(comm && comm->comparable ? entry : nullptr);
    }
  }

  void AddPeers(const View& view, int rank) {
    for (const ReportedPeer& peer : facts_.peers) {
      const reader::Communicator* const entry = EntryOf(process_, peer.communicator, peer.generation);
      const CommView* const comm = entry ? join_->CommOf(entry->id) : nullptr;
      const bool known = comm && peer.rank >= 0;
      const int its_rank = known ? view.JobRank(*comm, static_cast<std::uint32_t>(peer.rank)) : -1;
      if (known) join_->AddPair(rank, its_rank);
      rows_of_peers_.push_back(join_->RowOf(its_rank));
    }
    if (!facts_.many_peers) return;
    for (const reader::Communicator& entry : process_.box->communicators) join_->AddChained(entry.id);
  }

  void AddStep(const ReportedStep& step, std::size_t row, std::size_t at) {
    StepPart& part = join_->part(row, at);
    part.began_ns = process_.At(step.began_ns);
    part.duration_ns = step.duration_ns;
    part.exposed_ns = step.exposed_ns;
    part.message_ns = step.message_ns;
    CountMessages(step.messages, row);
    for (const ReportedArrival& reported : step.arrivals) {
      if (reported.kind >= entries_.size() || entries_[reported.kind] == nullptr) continue;
      const ReportedKind& kind = facts_.kinds[reported.kind];
      const reader::Communicator& entry = *entries_[reported.kind];
      const Arrival arrival{.row = row,
                            .step = at,
                            .entered_ns = part.began_ns + Ns(reported.entered),
                            .inside_ns = NsOf(reported.inside),
                            .kernel_ns = NsOf(reported.kernel),
                            .function = kind.function,
                            .bytes = kind.bytes,
                            .calls = kind.calls,
                            .alike = kind.alike};
      if (kind.channel.peer < 0) {
        join_->AddCollective(entry.id, reported.position, arrival);
        continue;
      }
      const auto peer = static_cast<std::uint32_t>(kind.channel.peer);
      const bool sends = kind.channel.sends;
      join_->AddMessage(entry.id, sends ? entry.rank : peer, sends ? peer : entry.rank, reported.position, arrival);
    }
  }

 private:
  void CountMessages(const StepMessageSum& reported, std::size_t row) {
    StepMessageSum sum = reported;
    sum.sent.clear();
    for (const auto& [peer, count] : reported.sent)
      if (peer < rows_of_peers_.size() && rows_of_peers_[peer] != SIZE_MAX) sum.sent[rows_of_peers_[peer]] += count;
    counter_->Count(row, sum);
  }

  const Process& process_;
  const ReportedRank& facts_;
  StepJoin* join_;
  MessageCounter* counter_;
  std::vector<std::size_t> rows_of_peers_;            // SIZE_MAX: it tells no steps
  std::vector<const reader::Communicator*> entries_;  // by kind; null: its communicator cannot be compared
};

}  // namespace

void ReportedSteps::Take(ReportedRank reported) {
  const Key key{reported.boot_id, reported.pid_namespace, reported.start_time, reported.pid};
  if (ranks_.size() >= kMostRanks && !ranks_.contains(key)) return;
  Rank& rank = ranks_[key];
  std::vector<ReportedStep> steps = std::exchange(reported.steps, {});
  const std::vector<ReportedKind> kinds = std::exchange(reported.kinds, std::move(rank.facts.kinds));
  const std::vector<ReportedPeer> peers = std::exchange(reported.peers, std::move(rank.facts.peers));
  const bool another = reported.stretches != rank.facts.stretches;
  rank.facts = std::move(reported);
  // The loop has become another one.
  if (another || rank.facts.kinds.size() + kinds.size() > kMostKinds * 2 ||
      rank.facts.peers.size() + peers.size() > kMostPeers * 2) {
    rank.facts.kinds.clear();
    rank.facts.peers.clear();
    rank.steps.clear();
  }
  const std::vector<std::size_t> kind_places = PlacesIn(kinds, &rank.facts.kinds);
  const std::vector<std::size_t> peer_places = PlacesIn(peers, &rank.facts.peers);
  for (ReportedStep& step : steps) {
    // A node's next leader tells again what the one before it has told.
    if (!rank.steps.empty() && step.began_ns <= rank.steps.back().began_ns) continue;
    if (!rank.steps.empty() && step.number <= rank.steps.back().number) rank.steps.clear();  // counted anew
    std::erase_if(step.arrivals, [&](const ReportedArrival& one) { return one.kind >= kind_places.size(); });
    for (ReportedArrival& arrival : step.arrivals) arrival.kind = static_cast<std::uint16_t>(kind_places[arrival.kind]);
    for (const auto& [peer, count] : std::exchange(step.messages.sent, {}))
      if (peer < peer_places.size()) step.messages.sent[peer_places[peer]] += count;
    rank.steps.push_back(std::move(step));
    if (rank.steps.size() > most_) Thin(&rank.steps);
  }
}

// Of the older half those go whose numbers are the least round: on all ranks the same.
void ReportedSteps::Thin(std::deque<ReportedStep>* steps) const {
  const auto middle = steps->begin() + static_cast<std::ptrdiff_t>(steps->size() / 2);
  int least = 64;
  for (auto step = steps->begin(); step != middle; ++step) least = std::min(least, Roundness(step->number));
  const auto kept =
      std::remove_if(steps->begin(), middle, [&](const ReportedStep& step) { return Roundness(step.number) == least; });
  steps->erase(kept, middle);
}

std::vector<ReportedSteps::Row> ReportedSteps::RowsOf(const View& view) const {
  std::vector<Row> rows;
  for (const Node& node : view.nodes) {
    const Process& process = view.process(node);
    if (node.rank < 0 || process.nodes.size() != 1) continue;
    const reader::BoxImage& box = *process.box;
    const auto found = ranks_.find({box.boot_id, box.pid_namespace, box.start_time, box.pid});
    if (found != ranks_.end() && !found->second.steps.empty()) rows.push_back({&node, &process, &found->second});
  }
  return rows;
}

StepTable ReportedSteps::Table(const View& view) const {
  const std::vector<Row> rows = RowsOf(view);
  if (rows.size() < 2) return {};
  const std::vector<std::uint64_t> numbers = CommonNumbers(rows);
  if (numbers.empty()) return {};
  std::unordered_map<std::uint64_t, std::size_t> place;
  for (std::size_t i = 0; i < numbers.size(); ++i) place[numbers[i]] = i;
  StepJoin join(view);
  MessageCounter counter;
  join.table().first = numbers.front();
  join.table().stretch = rows.front().rank->facts.stretches ? kStretch : 0;
  for (const Row& row : rows) join.AddRow(*row.node, numbers.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    RowFiller filler(*rows[row].process, rows[row].rank->facts, &join, &counter);
    filler.AddPeers(view, rows[row].node->rank);
    for (const ReportedStep& step : rows[row].rank->steps)
      if (const auto at = place.find(step.number); at != place.end()) filler.AddStep(step, row, at->second);
  }
  join.table().numbers = numbers;
  join.table().messages = counter.Take(rows.size());
  return join.Make();
}

}  // namespace ncclwatch::diagnosis
