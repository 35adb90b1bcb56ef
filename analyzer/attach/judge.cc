#include "analyzer/attach/judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/attach/communicator.h"
#include "core/model/text.h"
#include "core/report/where.h"

namespace ncclwatch::analyzer::attach {
namespace {

using diagnosis::Certainty;
using diagnosis::Finding;
using diagnosis::Kind;
using diagnosis::Ranks;

constexpr double kLikelyAfter_s = 3;  // all stood still for so long, and who is missing did nothing either
constexpr double kStarted_s = 10;     // after the others, a rank has been started too
constexpr double kBusy = 0.05;        // of a processor

std::string PlaceOf(const Standing& one) { return one.python_site.empty() ? one.site : one.python_site; }

bool IsWaiting(const Standing& one) { return !one.in.empty() && !one.moving && one.trouble.empty(); }
bool IsStopped(const Standing& one) { return one.state == 'T' || one.state == 't'; }

using Members = std::vector<const Standing*>;

std::vector<int> RanksOf(const Members& members) {
  std::vector<int> ranks;
  for (const Standing* one : members) ranks.push_back(one->rank);
  return ranks;
}

// Empty: there are none.
std::string LogsText(const Logs& logs) {
  if (logs.files == 0) return "";
  const std::string age =
      fmt::format("the job last wrote into {} {:.0f} s ago",
                  logs.files == 1 ? "its log" : fmt::format("its {} logs", logs.files), logs.silent_s);
  return logs.cause.empty() ? age : age + "; the first failure there: " + logs.cause;
}

void AddCulprits(const Members& members, Finding* finding) {
  for (const Standing* one : members) {
    diagnosis::Culprit culprit;
    culprit.rank = one->rank;
    culprit.host = one->host;
    culprit.node = one->host;
    culprit.pid = static_cast<std::uint32_t>(one->pid);
    culprit.start_time = one->start_time;
    culprit.where = one->where;
    culprit.state = one->holds;
    finding->culprits.push_back(one->rank);
    finding->culprit_details.push_back(std::move(culprit));
  }
}

diagnosis::CallSummary RowOf(const Members& members, double seconds) {
  const Standing& first = *members.front();
  diagnosis::CallSummary row;
  row.ranks = RanksOf(members);
  row.mpi = true;  // the rank stands in it
  row.position = 0;
  if (!first.in.empty()) {
    row.op = first.in;
    row.state = diagnosis::CallState::kEntered;
    row.elapsed_s = seconds;
  }
  row.site_text = PlaceOf(first);
  return row;
}

// Ranks by where their ways through the program part, or by the steps in which they make the same collective.
struct Parting {
  std::vector<Members> groups;
  std::size_t largest = 0;
  bool ordered = false;  // in one function: the groups stand in its order
};

Parting PartingOf(const Members& members) {
  const auto spot_at = [](const Standing& one, std::size_t level) {
    return level < one.path.size() ? one.path[level] : Spot{};
  };
  std::size_t level = 0, deepest = 0;
  for (const Standing* one : members) deepest = std::max(deepest, one->path.size());
  const auto all_at_one_spot = [&] {
    return std::all_of(members.begin(), members.end(),
                       [&](const Standing* one) { return spot_at(*one, level) == spot_at(*members.front(), level); });
  };
  while (level < deepest && all_at_one_spot()) ++level;
  std::set<std::string> vague;  // calls of which not all groups are known
  for (const Standing* one : members)
    if (!one->group_known) vague.insert(one->in);
  // On one way their calls, groups and steps may differ. Stages of a pipeline are at different steps rightly.
  std::map<std::tuple<std::string, std::int64_t, std::string>, Members> groups;
  for (const Standing* one : members) {
    const Spot spot = spot_at(*one, level);
    const std::string group = vague.contains(one->in) ? "" : one->group;
    const std::string call = one->in + "/" + group + (one->to_one ? "" : "/" + one->step.text);
    groups[{spot.function, spot.at, level < deepest ? "" : call}].push_back(one);
  }
  Parting parting;
  parting.ordered = level < deepest;
  for (const auto& [key, group] : groups) {
    if (group.size() > (parting.groups.empty() ? 0 : parting.groups[parting.largest].size()))
      parting.largest = parting.groups.size();
    parting.groups.push_back(group);
    parting.ordered = parting.ordered && std::get<0>(key) == std::get<0>(groups.begin()->first);
  }
  return parting;
}

// Whom a rank waits for: its peer; or, in a collective of all ranks, the only one that is not in it. Null: not known.
const Standing* WaitsFor(const Standing& one, const Members& members) {
  const bool of_all = one.group == kWorld || (one.group.empty() && one.group_known);
  if (!one.to_one && !of_all) return nullptr;
  const auto is_next = [&](const Standing* other) {
    return one.to_one ? other->rank == one.peer : other->in != one.in || other->group != one.group;
  };
  const auto next = std::find_if(members.begin(), members.end(), is_next);
  if (next == members.end()) return nullptr;
  const bool alone = std::none_of(std::next(next), members.end(), is_next);
  return alone ? *next : nullptr;
}

// If all that wait for messages say from whom: whoever is waited for and waits for nobody known, or a cycle.
Members EndOfChain(const Members& members) {
  const Standing* at = nullptr;
  for (const Standing* one : members) {
    if (one->to_one && one->peer < 0) return {};
    if (one->to_one) at = one;
  }
  if (at == nullptr) return {};
  Members way;
  for (;;) {
    if (const auto seen = std::find(way.begin(), way.end(), at); seen != way.end()) return Members(seen, way.end());
    way.push_back(at);
    const Standing* const next = WaitsFor(*at, members);
    if (next == nullptr) return at->to_one ? Members() : Members{at};
    at = next;
  }
}

// Of most of them; empty: there is no such majority.
std::string MostCommon(const Members& members, std::string Standing::*text) {
  std::map<std::string, std::size_t> counts;
  for (const Standing* one : members)
    if (2 * ++counts[one->*text] > members.size()) return one->*text;
  return "";
}

class Judgement {
 public:
  Judgement(const RunningJob& job, const RollCall& call, std::int64_t now_ns) : call_(call), now_ns_(now_ns) {
    std::set<int> seen;
    for (const Standing& one : call.ranks) seen.insert(one.rank);
    const bool complete = job.launched == job.world_size && job.age_s >= kStarted_s;
    for (int rank = 0; rank < job.world_size && complete; ++rank)
      if (!seen.contains(rank)) gone_.push_back(rank);
    for (const Standing& one : call.ranks) {
      if (!one.trouble.empty() && one.state != 'D') continue;
      if (IsStopped(one))
        stopped_.push_back(&one);
      else
        (IsWaiting(one) ? waiting_ : elsewhere_).push_back(&one);
    }
  }

  std::optional<Finding> Find() {
    if (!stopped_.empty()) return Stopped();
    if (!gone_.empty() && !waiting_.empty()) return Gone();
    if (waiting_.empty()) return std::nullopt;
    // The device's own work may take long; who waits for it waits for no rank, unless another one does nothing at all.
    const bool for_devices =
        std::all_of(waiting_.begin(), waiting_.end(), [](const auto* one) { return one->of_device; });
    if (!elsewhere_.empty()) {
      std::erase_if(elsewhere_, [this](const Standing* one) { return HasJustCome(*one); });
      if (elsewhere_.empty()) return std::nullopt;
      const bool missing = elsewhere_.size() <= waiting_.size() && (!for_devices || AreIdle(elsewhere_));
      return missing ? std::optional(Missing(for_devices)) : std::nullopt;
    }
    if (auto finding = for_devices ? InHostFunction() : OtherRendezvous()) return finding;
    return Apart(for_devices);
  }

 private:
  Finding Begin(Kind kind, Certainty certainty, const Members& culprits, const Members& victims) const {
    Finding finding;
    finding.kind = kind;
    finding.certainty = certainty;
    AddCulprits(culprits, &finding);
    finding.victims = RanksOf(victims);
    finding.evidence = diagnosis::WhereLines(finding);
    finding.detected_at_ns = now_ns_;
    finding.began_at_ns = now_ns_ - static_cast<std::int64_t>(call_.seconds * 1e9);
    for (const Group& group : GroupsOf(call_)) finding.calls.push_back(RowOf(group.members, call_.seconds));
    finding.evidence.push_back(
        fmt::format("roll call: {} looks in {:.1f} s; {} of {} ranks stood still in a call that waits for others",
                    call_.looks, call_.seconds, waiting_.size(), call_.ranks.size()));
    AddSteps(&finding);
    if (const std::string logs = LogsText(call_.logs); !logs.empty()) finding.evidence.push_back(logs);
    return finding;
  }

  // Only where they differ.
  void AddSteps(Finding* finding) const {
    std::map<std::string, Members> by_step;
    for (const Standing& one : call_.ranks)
      if (!one.step.text.empty()) by_step[one.step.text].push_back(&one);
    if (by_step.size() < 2) return;
    std::vector<std::string> texts;
    for (const auto& [step, members] : by_step) texts.push_back(Ranks(RanksOf(members)) + " at " + step);
    finding->evidence.push_back("the ranks are at different steps: " + diagnosis::Join(texts, "; "));
  }

  std::string WaitersText() const {
    std::map<std::string, Members> by_place;
    for (const Standing* one : waiting_) by_place[InText(*one)].push_back(one);
    std::vector<std::string> texts;
    for (const auto& [place, members] : by_place) texts.push_back(Ranks(RanksOf(members)) + " in " + place);
    return diagnosis::Join(texts, "; ");
  }

  Finding Stopped() {
    const bool traced =
        std::any_of(stopped_.begin(), stopped_.end(), [](const auto* one) { return one->state == 't'; });
    Finding finding =
        Begin(Kind::kFrozenProcess, traced ? Certainty::kSuspected : Certainty::kLikely, stopped_, waiting_);
    finding.summary = fmt::format("{} {} stopped by a {}.", diagnosis::Capital(Ranks(finding.culprits)),
                                  stopped_.size() == 1 ? "is" : "are", traced ? "debugger" : "signal");
    finding.next_steps.push_back(
        fmt::format("`kill -CONT {}` lets it go on; find out who stopped it", stopped_.front()->pid));
    return finding;
  }

  static bool AreIdle(const Members& members) {
    return std::all_of(members.begin(), members.end(),
                       [](const Standing* one) { return !one->moving && one->busy < kBusy; });
  }

  // It moves, and was last seen where others wait.
  bool HasJustCome(const Standing& one) const {
    const auto is_there = [&](const Standing* other) {
      const bool may_be_one_group = other->group == one.group || !other->group_known || !one.group_known;
      return other->in == one.in && may_be_one_group && PlaceOf(*other) == PlaceOf(one);
    };
    return !one.in.empty() && std::any_of(waiting_.begin(), waiting_.end(), is_there);
  }

  // Nobody on this machine has their rank in its environment, and all ranks were started here.
  Finding Gone() const {
    Finding finding = Begin(Kind::kDeadRank, Certainty::kSuspected, {}, waiting_);
    finding.culprits = gone_;
    for (const int rank : gone_) {
      diagnosis::Culprit culprit;
      culprit.rank = rank;
      culprit.host = culprit.node = waiting_.front()->host;
      finding.culprit_details.push_back(std::move(culprit));
    }
    finding.summary = fmt::format("{} {} not running any more, and the others wait: {}.",
                                  diagnosis::Capital(Ranks(gone_)), gone_.size() == 1 ? "is" : "are", WaitersText());
    finding.next_steps.emplace_back("look at the end of its log, and in the kernel log for the OOM killer");
    return finding;
  }

  Finding Missing(bool for_devices) {
    const bool sure = AreIdle(elsewhere_) && call_.seconds >= kLikelyAfter_s && !for_devices;
    Finding finding =
        Begin(Kind::kMissingParticipant, sure ? Certainty::kLikely : Certainty::kSuspected, elsewhere_, waiting_);
    const Standing& first = *elsewhere_.front();
    finding.summary =
        fmt::format("{} {} not in the call in which the others wait: {} in {}. Waiting: {}.",
                    diagnosis::Capital(Ranks(finding.culprits)), elsewhere_.size() == 1 ? "is" : "are",
                    elsewhere_.size() == 1 ? "it stands" : "the first of them stands", InText(first), WaitersText());
    for (const Standing* one : elsewhere_)
      finding.evidence.push_back(fmt::format("rank {} {}, and used {:.0f} % of a processor", one->rank,
                                             one->moving ? "moves" : "stood still", 100 * one->busy));
    AddNextSteps(first, &finding);
    return finding;
  }

  // All wait for their GPUs, and some of these wait for a function of their own program.
  std::optional<Finding> InHostFunction() const {
    Members odd, usual;
    for (const Standing* one : waiting_) (one->host_function.empty() ? usual : odd).push_back(one);
    if (odd.empty() || usual.empty() || call_.seconds < kLikelyAfter_s) return std::nullopt;
    const Standing& first = *odd.front();
    Finding finding = Begin(Kind::kDeviceStall, Certainty::kSuspected, odd, usual);
    finding.summary =
        fmt::format("The GPU of {} waits for a host function that does not end: {}. All ranks wait for their GPUs: {}.",
                    Ranks(finding.culprits), first.host_function, WaitersText());
    finding.evidence.push_back(
        fmt::format("no other rank has such a function running, and {} stood still", first.host_function));
    finding.next_steps.emplace_back("look at what that function waits for: a stream goes on only after it has ended");
    AddNextSteps(first, &finding);
    return finding;
  }

  // All are joining, and some mean to meet others than most do.
  std::optional<Finding> OtherRendezvous() const {
    const auto is_known = [](const auto* one) { return IsJoining(one->in) && !one->rendezvous.empty(); };
    if (!std::all_of(waiting_.begin(), waiting_.end(), is_known)) return std::nullopt;
    const std::string most = MostCommon(waiting_, &Standing::rendezvous);
    Members odd, usual;
    for (const Standing* one : waiting_) (one->rendezvous == most ? usual : odd).push_back(one);
    if (most.empty() || odd.empty()) return std::nullopt;
    Finding finding = Begin(Kind::kInitializationHang, Certainty::kSuspected, odd, usual);
    finding.summary =
        fmt::format("{} has {} in its environment, and most ranks have {}. All wait to join: {}.",
                    diagnosis::Capital(Ranks({odd.front()->rank})), odd.front()->rendezvous, most, WaitersText());
    finding.next_steps.emplace_back("compare how the ranks were launched, and who sets these variables");
    AddNextSteps(*odd.front(), &finding);
    return finding;
  }

  // All wait, in different places. Most are right. Without a majority those are behind that stand earlier in the same
  // function; if that tells nothing each waits for the other.
  std::optional<Finding> Apart(bool for_devices) {
    const Parting parting = PartingOf(waiting_);
    const Members end = EndOfChain(waiting_);
    if (parting.groups.size() < 2 && end.empty()) return for_devices ? std::nullopt : AllInOne();
    const std::size_t most = parting.groups[parting.largest].size();
    const bool majority = 2 * most > waiting_.size(), behind = !majority && parting.ordered;
    if (for_devices && !majority) return std::nullopt;
    Members odd, usual;
    for (std::size_t i = 0; i < parting.groups.size(); ++i) {
      const bool right = majority ? i == parting.largest : behind && i > 0;
      Members& to = right ? usual : odd;
      to.insert(to.end(), parting.groups[i].begin(), parting.groups[i].end());
    }
    if (!end.empty()) {
      odd = end;
      usual.clear();
      for (const Standing* one : waiting_)
        if (std::find(odd.begin(), odd.end(), one) == odd.end()) usual.push_back(one);
    }
    for (Members* members : {&odd, &usual})
      std::sort(members->begin(), members->end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
    const bool messages = std::all_of(odd.begin(), odd.end(), [](const auto* one) { return one->to_one; });
    const bool cycle = end.size() > 1;
    const Kind kind = usual.empty() || cycle || (messages && odd.size() > 1) ? Kind::kDeadlock
                      : messages                                             ? Kind::kPointToPointMismatch
                                                                             : Kind::kMissingParticipant;
    Finding finding = Begin(kind, Certainty::kSuspected, odd, usual);
    const std::string who = diagnosis::Capital(Ranks(finding.culprits)) + (odd.size() == 1 ? " waits" : " wait");
    if (cycle && !usual.empty())
      finding.summary = fmt::format("{} for one another: {}.", who, WaitersText());
    else if (usual.empty())
      finding.summary = fmt::format("All ranks wait for one another, in different calls: {}.", WaitersText());
    else if (behind)
      finding.summary = fmt::format("{} in an earlier call than the others: {}.", who, WaitersText());
    else
      finding.summary = fmt::format("{} in another call than most: {}.", who, WaitersText());
    finding.next_steps.emplace_back(
        "compare how they came there: a branch on the rank around a call, another order of calls, or an exception that "
        "one of them caught");
    AddNextSteps(*odd.front(), &finding);
    return finding;
  }

  // A cycle of receives or sends; of a collective nothing tells who holds it up.
  std::optional<Finding> AllInOne() {
    const Standing& first = *waiting_.front();
    if (waiting_.size() < 2 || call_.seconds < kLikelyAfter_s) return std::nullopt;
    const Kind kind = first.to_one          ? Kind::kDeadlock
                      : IsJoining(first.in) ? Kind::kInitializationHang
                                            : Kind::kTransportStall;
    Finding finding =
        Begin(kind, Certainty::kSuspected, first.to_one ? waiting_ : Members(), first.to_one ? Members() : waiting_);
    finding.summary = fmt::format("All {} ranks stand still in {}.", waiting_.size(), InText(first));
    finding.next_steps.emplace_back(first.to_one
                                        ? "look for a cycle: each rank receives before it sends"
                                        : "all have come, and the call does not end: look at the network, and at "
                                          "ranks of other nodes that were not looked at");
    return finding;
  }

  static void AddNextSteps(const Standing& first, Finding* finding) {
    finding->next_steps.push_back(
        fmt::format("see all its threads: `ncclwatch stacks --each {}` on {}", first.pid, first.host));
    finding->next_steps.emplace_back(
        "start the job under `ncclwatch run` next time: then the calls before the hang are known");
  }

  const RollCall& call_;
  const std::int64_t now_ns_;
  Members waiting_, elsewhere_, stopped_;
  std::vector<int> gone_;
};

void AddNotes(const RunningJob& job, const RollCall& call, diagnosis::Diagnosis* diagnosis) {
  std::vector<std::string>& notes = diagnosis->notes;
  notes.emplace_back(
      "looked at from outside, without black boxes: sizes, order and calls before this moment are not known");
  if (job.by_age) notes.emplace_back("nothing tells the ranks of these processes: they are numbered by start time");
  if (std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankProcess& one) { return one.watched; }))
    notes.emplace_back("ncclwatch is in these processes: `ncclwatch diagnose` knows more");
  if (std::all_of(call.ranks.begin(), call.ranks.end(), [](const auto& one) { return one.of_device && !one.moving; }))
    notes.emplace_back("all ranks wait for their GPUs: what runs there is not seen from outside");
  for (const Standing& one : call.ranks)
    if (!one.trouble.empty()) notes.push_back(fmt::format("rank {} (pid {}): {}", one.rank, one.pid, one.trouble));
}

}  // namespace

std::string InText(const Standing& one) {
  const std::string place = PlaceOf(one);
  std::string call = one.in;
  if (!one.group.empty()) call += (IsOfMpi(one.in) ? " on " : " of group ") + one.group;
  if (one.peer >= 0) call += fmt::format(" with rank {}", one.peer);
  std::string text = call.empty() ? place : place.empty() ? call : call + ", called from " + place;
  if (text.empty()) text = "a place that could not be read";
  return one.step.text.empty() ? text : text + ", at " + one.step.text;
}

std::vector<Group> GroupsOf(const RollCall& call) {
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  std::vector<Group> groups;
  for (const Standing& one : call.ranks) {
    const auto [at, fresh] = known.try_emplace({InText(one), one.site}, groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].members.push_back(&one);
    groups[at->second].moving = groups[at->second].moving || one.moving;
  }
  return groups;
}

diagnosis::Diagnosis Judge(const RunningJob& job, const RollCall& call, std::int64_t now_ns) {
  diagnosis::Diagnosis diagnosis;
  diagnosis.job = job.name;
  diagnosis.world_size = job.world_size;
  diagnosis.processes = diagnosis.watched = static_cast<int>(call.ranks.size());
  diagnosis.expected = std::max(job.world_size, diagnosis.watched);
  for (const Standing& one : call.ranks)
    if (std::find(diagnosis.hosts.begin(), diagnosis.hosts.end(), one.host) == diagnosis.hosts.end())
      diagnosis.hosts.push_back(one.host);
  std::vector<bool> seen(static_cast<std::size_t>(diagnosis.expected));
  for (const Standing& one : call.ranks)
    if (one.rank >= 0 && one.rank < diagnosis.expected) seen[static_cast<std::size_t>(one.rank)] = true;
  for (int rank = 0; rank < job.world_size; ++rank)
    if (!seen[static_cast<std::size_t>(rank)]) diagnosis.unseen_ranks.push_back(rank);
  AddNotes(job, call, &diagnosis);
  if (!call.logs.cause.empty()) diagnosis.notes.push_back("in the logs: " + call.logs.cause);
  if (auto finding = Judgement(job, call, now_ns).Find()) diagnosis.findings.push_back(std::move(*finding));
  return diagnosis;
}

}  // namespace ncclwatch::analyzer::attach
