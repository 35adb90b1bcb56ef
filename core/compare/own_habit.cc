#include "core/compare/own_habit.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/steps/steps.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::diagnosis {
namespace {

using How = Break::How;

constexpr std::size_t kLookAhead = 16;    // calls after a break that tell what it was
constexpr std::size_t kAgree = 2;         // so many of them at least, but at the end of all calls
constexpr std::size_t kFarthest = 12;     // calls that an exchange may lie apart
constexpr std::size_t kMostAtOnce = 3;    // calls that are added or left out at one place
constexpr std::size_t kMostPhases = 512;  // a step that is longer is looked for where it broke off only
constexpr std::size_t kPriceOfBreak = 6;  // in calls: which of several lengths explains the calls with the least

// Reads the calls as repetitions of one step, and notes where they are not.
class Reading {
 public:
  Reading(const std::vector<Symbol>& calls, const std::vector<std::uint64_t>& sizes, std::size_t length)
      : calls_(calls), sizes_(sizes), length_(length), first_size_(length, kNoCall) {}

  // False if nothing repeats itself, or it takes more than `most` to explain.
  bool Run(std::size_t most) {
    if (!FindBlock()) return false;
    most_ = most;
    price_ = length_ + block_;
    std::size_t at = block_, phase = 0;
    while (at < calls_.size() && price_ < most_) {
      if (Equal(at, phase)) {
        NoteSize(at, phase);
        Step(&at, &phase);
      } else if (!Mend(&at, &phase)) {
        Lose(&at, &phase);
      }
    }
    return price_ < most_;
  }
  std::size_t price() const { return price_; }
  Habit Found() const {
    Habit habit{length_, followed_ / length_, {}};
    for (const auto& [what, seen] : seen_)
      if (seen.times == 1) habit.breaks.push_back(seen.first);
    std::sort(habit.breaks.begin(), habit.breaks.end(), [](const Break& a, const Break& b) { return a.at < b.at; });
    return habit;
  }

 private:
  static constexpr std::size_t kNoCall = SIZE_MAX;

  struct Way {
    How how{};
    std::size_t made = 0, wanted = 0;  // calls that it takes from each side
    std::size_t agree = 0;             // behind it
  };

  // The first two equal steps in a row.
  bool FindBlock() {
    std::size_t run = 0;
    for (std::size_t i = length_; i < calls_.size(); ++i) {
      run = calls_[i].call == calls_[i - length_].call ? run + 1 : 0;
      if (run < length_) continue;
      block_ = i + 1 - 2 * length_;
      return true;
    }
    return false;
  }

  std::size_t Wanted(std::size_t phase) const { return block_ + phase % length_; }
  bool Equal(std::size_t at, std::size_t phase) const {
    return at < calls_.size() && calls_[at].call == calls_[Wanted(phase)].call;
  }
  void Step(std::size_t* at, std::size_t* phase) {
    ++followed_;
    ++*at;
    *phase = (*phase + 1) % length_;
  }

  std::size_t Agreement(std::size_t at, std::size_t phase) const {
    std::size_t agree = 0;
    while (agree < std::min(kLookAhead, length_) && Equal(at + agree, phase + agree)) ++agree;
    return agree;
  }

  // A size that changes more than once is no habit.
  void NoteSize(std::size_t at, std::size_t phase) {
    std::size_t& first = first_size_[phase];
    if (first == kNoCall) first = at;
    if (sizes_[at] != sizes_[first]) Note({How::kResized, at, first, 0, followed_ / length_}, phase, 0);
  }

  bool IsExchange(std::size_t at, std::size_t phase, std::size_t distance) const {
    if (!Equal(at, phase + distance) || !Equal(at + distance, phase)) return false;
    for (std::size_t i = 1; i < distance; ++i)
      if (!Equal(at + i, phase + i)) return false;
    return true;
  }

  Way BestWay(std::size_t at, std::size_t phase) const {
    Way best;
    const auto consider = [&](How how, std::size_t made, std::size_t wanted) {
      const std::size_t agree = Agreement(at + made, phase + wanted);
      if (best.made + best.wanted == 0 || agree > best.agree) best = {how, made, wanted, agree};
    };
    for (std::size_t distance = 1; distance <= std::min(kFarthest, length_ - 1); ++distance)
      if (IsExchange(at, phase, distance)) consider(How::kExchanged, distance + 1, distance + 1);
    consider(How::kReplaced, 1, 1);
    for (std::size_t calls = 1; calls <= std::min(kMostAtOnce, length_ - 1); ++calls) {
      consider(How::kLeftOut, 0, calls);
      consider(How::kExtra, calls, 0);
    }
    return best;
  }

  // One simple change, after which all goes on as always.
  bool Mend(std::size_t* at, std::size_t* phase) {
    const Way way = BestWay(*at, *phase);
    const bool at_the_end = *at + way.made + way.agree == calls_.size();
    if (way.agree < std::min(kAgree, length_) && !at_the_end) return false;
    Note(way.how, *at, *phase, way.how == How::kExchanged ? way.made - 1 : 0);
    price_ += kPriceOfBreak + way.made + way.wanted;
    *at += way.made;
    *phase = (*phase + way.wanted) % length_;
    return true;
  }

  // Something else altogether, until a step, or the rest of one, is as always again.
  void Lose(std::size_t* at, std::size_t* phase) {
    const std::size_t enough = std::min(length_, kLookAhead);
    const std::size_t began = *at;
    Note(How::kOther, *at, *phase, 0);
    const std::size_t phases = length_ <= kMostPhases ? length_ : 1;
    for (++*at; *at < calls_.size(); ++*at) {
      if (price_ + kPriceOfBreak + *at - began >= most_) break;
      std::size_t turned = 0;
      while (turned < phases && Agreement(*at, *phase + turned) < enough) ++turned;
      if (turned == phases) continue;
      *phase = (*phase + turned) % length_;
      break;
    }
    price_ += kPriceOfBreak + *at - began;
  }

  void Note(How how, std::size_t at, std::size_t phase, std::size_t distance) {
    Note({how, at, Wanted(phase), Wanted(phase + distance), followed_ / length_}, phase,
         how == How::kLeftOut ? 0 : calls_[at].call);
  }
  void Note(const Break& found, std::size_t phase, std::uint64_t made) {
    Seen& seen = seen_[{found.how, phase, made}];
    if (++seen.times == 1) seen.first = found;
  }

  struct Seen {
    Break first;
    std::size_t times = 0;
  };

  const std::vector<Symbol>& calls_;
  const std::vector<std::uint64_t>& sizes_;
  const std::size_t length_;
  std::size_t block_ = 0;  // where the step begins that all others are held against
  std::vector<std::size_t> first_size_;
  std::map<std::tuple<How, std::size_t, std::uint64_t>, Seen> seen_;
  std::size_t followed_ = 0;  // calls that were as always
  std::size_t price_ = 0, most_ = 0;
};

using reader::Call;
using CommByKey = std::unordered_map<std::uint64_t, int>;

CommByKey CommsOf(const View& view, const Node& node) {
  CommByKey comms;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    comms[KeyOf(member.comm->index, member.comm->generation)] = at.first;
  }
  return comms;
}

// With whom, on what; sizes and types are asked about apart. Where a receive from anybody took its message from is not
// its caller's doing.
std::uint64_t ShapeOf(const Call& call) {
  if (!IsMessage(call)) return format::Fingerprint(call.function, 0, call.dtype, call.reduction, call.root, 0);
  const bool any_source = (call.flags & format::kAnySource) != 0, any_tag = (call.flags & format::kAnyTag) != 0;
  const auto tag = static_cast<std::uint64_t>(any_tag ? format::kNoTag : call.tag);
  return format::Fingerprint(call.function, tag, format::kNoType, format::kNoReduction,
                             any_source ? format::kNoRank : call.root, 0);
}

CallOn On(const CommByKey& comms, const Call& call) {
  return {call, comms.at(KeyOf(call.communicator, call.generation))};
}

OwnBreak BreakOf(const History& history, const CommByKey& comms, const Habit& habit, const Break& found) {
  OwnBreak own;
  own.how = found.how;
  own.steps = found.steps;
  own.in_last_step = found.at + habit.length >= history.calls.size();
  if (found.how != Break::How::kLeftOut) own.made = On(comms, *history.calls[found.at]);
  if (found.how != Break::How::kExtra) own.usual = On(comms, *history.calls[found.usual]);
  if (found.how == Break::How::kExchanged) own.other = On(comms, *history.calls[found.other]);
  return own;
}

}  // namespace

std::optional<Habit> FindHabit(const std::vector<Symbol>& calls, const std::vector<std::uint64_t>& sizes) {
  std::set<std::size_t> lengths;
  for (std::size_t width = 1; width * 2 <= calls.size(); width *= 2) lengths.insert(UsualDistance(calls, width));
  lengths.erase(0);
  std::optional<Habit> habit;
  std::size_t least = calls.size();
  for (const std::size_t length : lengths) {
    Reading reading(calls, sizes, length);
    if (!reading.Run(least)) continue;
    least = reading.price();
    habit = reading.Found();
  }
  return habit;
}

OwnHabit HabitOf(const View& view, const Node& node) {
  const History history = HistoryOf(view, node);
  const CommByKey comms = CommsOf(view, node);
  std::vector<Symbol> symbols(history.calls.size());
  std::vector<std::uint64_t> sizes(history.calls.size(), 0);
  for (std::size_t i = 0; i < history.calls.size(); ++i) {
    const Call& call = *history.calls[i];
    const int comm = comms.at(KeyOf(call.communicator, call.generation));
    symbols[i].call = format::Mix(view.comms[static_cast<std::size_t>(comm)].id, ShapeOf(call));
    symbols[i].message = IsMessage(call);
    if (IsMessage(call)) sizes[i] = functions::IsMpi(call.function) ? call.bytes : BytesOf(call);
  }
  OwnHabit own;
  const std::optional<Habit> habit = FindHabit(symbols, sizes);
  if (!habit) return own;
  own.steps = habit->steps;
  for (const Break& found : habit->breaks) own.breaks.push_back(BreakOf(history, comms, *habit, found));
  return own;
}

}  // namespace ncclwatch::diagnosis
