#include "core/slow/meanwhile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/model/text.h"
#include "core/report/where.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Doing;
using reader::Meanwhile;
using reader::MeanwhileSample;

constexpr std::size_t kFewestSamples = 4;
constexpr std::size_t kFewestWaits = 2;
constexpr double kHeldBack = 0.3;  // of the time: what keeps a thread from its processor is worth a word
// Of the time, by which a group's limit explains it. Kernels count throttled time in different ways; the thread's own
// wait goes on beside.
constexpr double kThrottled = 0.05;

constexpr std::uint64_t kMuchWritten = 1 << 20;  // bytes in a wait
constexpr double kHardlyRuns = 0.5;              // of the time

// Follows "rank 2".
std::string_view DoingText(Doing doing) {
  switch (doing) {
    case Doing::kInput: return "reads input";
    case Doing::kCheckpoint: return "writes a checkpoint or another file";
    case Doing::kFileSystem: return "waits for a file system";
    case Doing::kGpu: return "waits for its own GPU";
    case Doing::kRunning: return "computes on the CPU";
    case Doing::kLock: return "waits for a lock or for another of its threads";
    case Doing::kNetwork: return "waits for the network";
    case Doing::kPaging: return "waits for pages of memory";
    case Doing::kAsleep: return "sleeps";
    case Doing::kStopped: return "is stopped by a signal or a debugger";
    case Doing::kCall: return "is in other calls of MPI or NCCL";
    case Doing::kOther: break;
  }
  return "does something else";
}

double Share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

// What happens most often; of equals the first in order.
template <typename Value, typename Of>
std::pair<Value, std::size_t> MostOften(const std::vector<const MeanwhileSample*>& samples, Of of) {
  std::map<Value, std::size_t> counts;
  for (const MeanwhileSample* sample : samples) ++counts[of(*sample)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return {most->first, most->second};
}

// What was seen of one culprit.
class Account {
 public:
  Account(int rank, const Meanwhile& seen) : rank_(rank), seen_(seen) {
    std::vector<const MeanwhileSample*> all;
    std::set<std::uint64_t> waits;
    for (const MeanwhileSample& sample : seen.samples) {
      all.push_back(&sample);
      waits.insert(sample.wait);
    }
    waits_ = waits.size();
    enough_ = all.size() >= kFewestSamples && waits_ >= kFewestWaits;
    if (all.empty()) return;
    const auto [doing, count] = MostOften<Doing>(all, [](const MeanwhileSample& sample) { return sample.doing; });
    doing_ = WritesBetweenSamples() ? Doing::kCheckpoint : doing;
    if (doing_ == doing && static_cast<double>(count) < kLeastCovered * static_cast<double>(all.size())) SetKept(all);
    for (const MeanwhileSample* sample : all)
      if (sample->doing == doing_) like_.push_back(sample);
  }

  bool enough() const { return enough_; }
  bool covered() const {
    if (kept_ || WritesBetweenSamples()) return true;
    return doing_ != Doing::kOther &&
           static_cast<double>(like_.size()) >= kLeastCovered * static_cast<double>(seen_.samples.size());
  }
  Doing doing() const { return doing_; }
  bool kept() const { return kept_; }

  std::vector<std::string> Where() const {
    return MostOften<std::vector<std::string>>(like_, [](const MeanwhileSample& sample) { return sample.where; }).first;
  }

  // "computes on the CPU", and what keeps it from doing so; "reads input, in read of /data/17.bin (nfs4, ...)".
  std::string Words() const {
    const double held = HeldBack();
    if (doing_ == Doing::kRunning && held >= kHeldBack)
      return Throttled() >= kThrottled
                 ? fmt::format("is kept from the CPU for {:.0f} % of the time by the limit of its control group",
                               100 * held)
                 : fmt::format("is ready to compute and waits for a processor for {:.0f} % of the time", 100 * held);
    const auto [words, count] =
        MostOften<std::string>(like_, [](const MeanwhileSample& sample) { return sample.words; });
    return std::string(DoingText(doing_)) + (words.empty() ? "" : ", " + words);
  }

  std::string Line() const {
    return fmt::format("{} {} in {} of {} samples, taken in {} waits of the others", Ranks({rank_}), Words(),
                       like_.size(), seen_.samples.size(), waits_);
  }

  std::string UnattributedLine() const {
    std::map<Doing, std::size_t> counts;
    for (const MeanwhileSample& sample : seen_.samples) ++counts[sample.doing];
    std::vector<std::string> texts;
    for (const auto& [doing, count] : counts) texts.push_back(fmt::format("{} in {}", DoingText(doing), count));
    return fmt::format("unattributed: of {} samples taken while the others waited, {} {}", seen_.samples.size(),
                       Ranks({rank_}), Join(texts, ", "));
  }

  std::optional<std::string> FaultsLine() const {
    if (seen_.major_faults < waits_) return std::nullopt;
    return fmt::format("{} had {} major page faults meanwhile: its memory comes from a disk", Ranks({rank_}),
                       seen_.major_faults);
  }

 private:
  // A fast disk wakes the thread so often that samples find it ready to run; it hardly runs, and writes much.
  bool WritesBetweenSamples() const {
    return seen_.written >= kMuchWritten * waits_ && Share(seen_.run_ns, seen_.waited_ns) < kHardlyRuns &&
           std::any_of(seen_.samples.begin(), seen_.samples.end(),
                       [](const MeanwhileSample& sample) { return sample.doing == Doing::kCheckpoint; });
  }

  // Whoever has no processor does everything later, whatever it is seen doing.
  void SetKept(const std::vector<const MeanwhileSample*>& all) {
    const auto count_of = [&](Doing doing) {
      return std::count_if(all.begin(), all.end(), [&](const MeanwhileSample* one) { return one->doing == doing; });
    };
    const bool stopped = static_cast<double>(count_of(Doing::kStopped)) >= kHeldBack * static_cast<double>(all.size());
    const bool throttled = Throttled() >= kThrottled && HeldBack() >= kHeldBack && count_of(Doing::kRunning) > 0;
    kept_ = stopped || throttled;
    if (kept_) doing_ = stopped ? Doing::kStopped : Doing::kRunning;
  }

  double HeldBack() const { return std::min(1.0, std::max(Throttled(), Queued())); }
  double Throttled() const { return Share(seen_.throttled_ns, seen_.waited_ns); }
  double Queued() const { return Share(seen_.queued_ns, seen_.waited_ns); }

  int rank_;
  const Meanwhile& seen_;
  std::size_t waits_ = 0;
  bool enough_ = false;
  bool kept_ = false;  // from its processor
  Doing doing_ = Doing::kOther;
  std::vector<const MeanwhileSample*> like_;  // that show it doing so
};

const Meanwhile* Of(const Culprit& culprit, const std::vector<Meanwhile>& all) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Meanwhile& one) {
    return culprit.pid == one.who.pid && culprit.start_time == one.who.start_time &&
           (one.who.host == culprit.host || one.who.host == reader::kNoHost);
  });
  return found == all.end() ? nullptr : &*found;
}

// At random times.

constexpr std::size_t kFewestAtRandom = 24;
constexpr double kOwnExplains = 0.5;    // of what is lost by the straggler
constexpr double kLeastMore = 0.1;      // of the time, that a late rank does more of something than any other
constexpr double kLeastStarved = 0.15;  // of the time, that ranks read on average
constexpr double kReads = 0.1;          // of the time, that two thirds of them do: who is last may change
constexpr double kErrorsOfShare = 2.5;  // standard errors

double ShareOf(const Meanwhile& seen, Doing doing) {
  const auto count = std::count_if(seen.at_random.begin(), seen.at_random.end(),
                                   [&](const MeanwhileSample& one) { return one.doing == doing; });
  return static_cast<double>(count) / static_cast<double>(seen.at_random.size());
}

double ErrorOfShare(double share, const Meanwhile& seen) {
  return std::sqrt(share * (1 - share) / static_cast<double>(seen.at_random.size()));
}

// Others do not do that at the same time, as they compute, sleep or wait for a GPU.
constexpr Doing kReasons[] = {Doing::kInput,   Doing::kCheckpoint, Doing::kFileSystem,
                              Doing::kNetwork, Doing::kPaging,     Doing::kStopped};
bool IsReason(Doing doing) { return std::find(std::begin(kReasons), std::end(kReasons), doing) != std::end(kReasons); }

// A reason for which it stands still so much more than each of the others that it explains `share_lost`; kOther: none.
Doing WhatOnlyItDoes(const Meanwhile& late, const std::vector<const Meanwhile*>& others, double share_lost) {
  if (late.at_random.size() < kFewestAtRandom || others.empty()) return Doing::kOther;
  for (const Doing doing : kReasons) {
    const double own = ShareOf(late, doing);
    const bool is_it = std::all_of(others.begin(), others.end(), [&](const Meanwhile* other) {
      const double more = own - ShareOf(*other, doing);
      return more >= std::max(kLeastMore, kOwnExplains * share_lost) &&
             more >= kErrorsOfShare * ErrorOfShare(own, late);
    });
    if (is_it) return doing;
  }
  return Doing::kOther;
}

Kind KindOf(Doing doing) {
  if (doing == Doing::kInput) return Kind::kStarvedInput;
  return doing == Doing::kCheckpoint ? Kind::kBlockingCheckpoint : Kind::kStraggler;
}

// The first culprit that was looked at at random times, and what it alone does.
struct Excess {
  const Meanwhile* late = nullptr;
  Doing doing = Doing::kOther;
  double own = 0, others = 0;  // shares of the time
};

std::optional<Excess> ExcessOf(const Finding& finding, const std::vector<Meanwhile>& meanwhile) {
  Excess excess;
  std::vector<const Meanwhile*> others;
  for (const Meanwhile& one : meanwhile)
    if (one.at_random.size() >= kFewestAtRandom) others.push_back(&one);
  for (const Culprit& culprit : finding.culprit_details)
    if (const Meanwhile* const seen = Of(culprit, meanwhile)) {
      std::erase(others, seen);
      if (!excess.late) excess.late = seen;
    }
  if (!excess.late) return std::nullopt;
  excess.doing = WhatOnlyItDoes(*excess.late, others, finding.share_lost.value_or(0));
  if (excess.doing == Doing::kOther) return std::nullopt;
  excess.own = ShareOf(*excess.late, excess.doing);
  for (const Meanwhile* const other : others) excess.others = std::max(excess.others, ShareOf(*other, excess.doing));
  return excess;
}

std::vector<const MeanwhileSample*> SamplesOf(const Meanwhile& seen, Doing doing) {
  std::vector<const MeanwhileSample*> like;
  for (const MeanwhileSample& one : seen.at_random)
    if (one.doing == doing) like.push_back(&one);
  return like;
}

std::string UsualWords(const std::vector<const MeanwhileSample*>& samples) {
  return MostOften<std::string>(samples, [](const MeanwhileSample& one) { return one.words; }).first;
}

std::vector<std::string> UsualPlace(const std::vector<const MeanwhileSample*>& samples) {
  return MostOften<std::vector<std::string>>(samples, [](const MeanwhileSample& one) { return one.where; }).first;
}

void ExplainByExcess(const Excess& excess, Finding* finding) {
  const std::vector<const MeanwhileSample*> like = SamplesOf(*excess.late, excess.doing);
  Culprit& culprit = *std::find_if(finding->culprit_details.begin(), finding->culprit_details.end(),
                                   [&](const Culprit& one) { return one.pid == excess.late->who.pid; });
  culprit.where = UsualPlace(like);
  finding->kind = KindOf(excess.doing);
  const std::string words = UsualWords(like);
  finding->summary += fmt::format(" It {}{} for {:.0f} % of the time.", DoingText(excess.doing),
                                  words.empty() ? "" : ", " + words + ",", 100 * excess.own);
  std::vector<std::string> lines = {
      fmt::format("at random times {} {} in {:.0f} % of {} samples, and ranks that are not late in {:.0f} % at most",
                  Ranks({culprit.rank}), DoingText(excess.doing), 100 * excess.own, excess.late->at_random.size(),
                  100 * excess.others)};
  const std::vector<std::string> where = WhereLines(*finding);
  lines.insert(lines.end(), where.begin(), where.end());
  finding->evidence.insert(finding->evidence.begin(), lines.begin(), lines.end());
}

}  // namespace

std::optional<StarvedJob> FindStarvedJob(const std::vector<Meanwhile>& meanwhile) {
  StarvedJob found;
  const Meanwhile* most = nullptr;
  double all = 0;
  std::size_t reading = 0;
  for (const Meanwhile& one : meanwhile) {
    if (one.at_random.size() < kFewestAtRandom) continue;
    const double share = ShareOf(one, Doing::kInput);
    if (share >= kReads) ++reading;
    if (!most || share > ShareOf(*most, Doing::kInput)) most = &one;
    all += share;
    ++found.processes;
  }
  if (found.processes < 2 || 3 * reading < 2 * found.processes) return std::nullopt;
  found.share = all / static_cast<double>(found.processes);
  if (found.share < kLeastStarved) return std::nullopt;
  const std::vector<const MeanwhileSample*> like = SamplesOf(*most, Doing::kInput);
  found.words = UsualWords(like);
  found.where = UsualPlace(like);
  return found;
}

void ExplainStraggler(const std::vector<Meanwhile>& meanwhile, Finding* finding) {
  std::vector<Account> accounts;
  for (Culprit& culprit : finding->culprit_details) {
    const Meanwhile* const seen = Of(culprit, meanwhile);
    if (!seen || seen->samples.empty()) continue;
    accounts.emplace_back(culprit.rank, *seen);
    if (accounts.back().covered()) culprit.where = accounts.back().Where();
  }
  const bool named = !accounts.empty() && std::all_of(accounts.begin(), accounts.end(), [&](const Account& one) {
    return one.enough() && one.covered() && one.doing() == accounts.front().doing();
  });
  const bool speaks = named && (accounts.front().kept() || IsReason(accounts.front().doing()));
  if (const auto excess = speaks ? std::nullopt : ExcessOf(*finding, meanwhile))
    return ExplainByExcess(*excess, finding);
  std::vector<std::string> lines;
  for (const Account& one : accounts) {
    lines.push_back(one.covered() ? one.Line() : one.UnattributedLine());
    if (auto faults = one.FaultsLine()) lines.push_back(std::move(*faults));
  }
  const std::vector<std::string> where = WhereLines(*finding);
  lines.insert(lines.end(), where.begin(), where.end());
  finding->evidence.insert(finding->evidence.begin(), lines.begin(), lines.end());
  if (!named) return;
  const Account& first = accounts.front();
  finding->kind = KindOf(first.doing());
  const std::vector<std::string> stands = first.Where();
  finding->summary +=
      fmt::format(" Meanwhile it {}{}.", first.Words(), stands.empty() ? "" : "; it stands in " + stands.front());
}

}  // namespace ncclwatch::diagnosis
