#include "core/slow/tomography.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ncclwatch::diagnosis {
namespace {

using Kind = Component::Kind;
using Hosts = std::vector<int>;

constexpr std::size_t kMostDerived = 512;   // groups of hosts
constexpr std::size_t kMostInRing = 64;     // hosts of a transfer of which each pair is looked at
constexpr std::size_t kMostOfAKind = 1024;  // more of them cannot be told apart
constexpr std::size_t kMostParts = 6;
// A transfer of so much less than the slow ones is bound by latency, and clears nobody.
constexpr std::uint64_t kClears = 4;

// kMay: its ring, or its tree, need not lead there.
enum class Touch { kNo, kMay, kYes };

struct Passage {
  const StepTransfers* transfer = nullptr;
  Hosts hosts;
  bool one_of_each_host = false;
  bool crosses() const { return hosts.size() > 1; }
};

bool Has(const Hosts& hosts, int host) { return std::binary_search(hosts.begin(), hosts.end(), host); }

std::size_t Common(const Hosts& a, const Hosts& b) {
  return static_cast<std::size_t>(std::count_if(a.begin(), a.end(), [&](int host) { return Has(b, host); }));
}

// The switches below each, and their hosts.
struct Group {
  std::string name;
  Hosts hosts;
  std::vector<Hosts> below;
};

class Tomography {
 public:
  Tomography(const StepTable& table, const Topology& topology, const std::vector<std::size_t>& slow,
             const std::vector<std::size_t>& fast)
      : table_(table) {
    std::uint64_t least = UINT64_MAX;
    for (const std::size_t index : slow) {
      slow_.push_back(PassageOf(table.transfers[index]));
      least = std::min(least, table.transfers[index].bytes);
    }
    for (const std::size_t index : fast)
      if (table.transfers[index].bytes >= least / kClears) fast_.push_back(PassageOf(table.transfers[index]));
    SetGroups(topology);
    SetCleared();
  }

  std::optional<SlowParts> Explain() {
    const auto crosses = [](const Passage& one) { return one.crosses(); };
    if (slow_.empty() || std::none_of(fast_.begin(), fast_.end(), crosses)) return WithinOneHost();
    Collect();
    if (auto one = One()) return one;
    if (auto two = Two()) return two;
    return Several();
  }

 private:
  struct Candidate {
    Component component;
    std::vector<bool> explains;  // of the slow transfers
    std::size_t count = 0;
    bool surely = true;  // none of them is a may
  };

  Passage PassageOf(const StepTransfers& transfer) const {
    Passage passage{&transfer, {}, false};
    for (const std::size_t row : transfer.rows) passage.hosts.push_back(table_.hosts[row]);
    std::sort(passage.hosts.begin(), passage.hosts.end());
    passage.hosts.erase(std::unique(passage.hosts.begin(), passage.hosts.end()), passage.hosts.end());
    passage.one_of_each_host = passage.hosts.size() == transfer.rows.size();
    return passage;
  }

  // Those of the topology; if there is none, whoever shares a communicator.
  void SetGroups(const Topology& topology) {
    const auto number_of = [&](const std::string& name) {
      const auto at = std::find(table_.host_names.begin(), table_.host_names.end(), name);
      return at == table_.host_names.end() ? -1 : static_cast<int>(at - table_.host_names.begin());
    };
    for (const Switch& one : topology) {
      Group group{one.name, {}, {}};
      for (const std::string& name : one.hosts)
        if (const int number = number_of(name); number >= 0) group.hosts.push_back(number);
      std::sort(group.hosts.begin(), group.hosts.end());
      if (!group.hosts.empty()) groups_.push_back(std::move(group));
    }
    for (Group& group : groups_)
      for (const Group& other : groups_)
        if (other.hosts.size() < group.hosts.size() && Common(other.hosts, group.hosts) == other.hosts.size())
          group.below.push_back(other.hosts);
    if (!groups_.empty()) return;
    std::set<Hosts> derived;
    for (const auto* passages : {&slow_, &fast_})
      for (const Passage& passage : *passages)
        if (passage.hosts.size() > 2 && passage.hosts.size() < table_.host_names.size() &&
            derived.size() < kMostDerived)
          derived.insert(passage.hosts);
    for (const Hosts& hosts : derived) groups_.push_back({"", hosts, {}});
  }

  // Hosts, pairs and adapters that fast transfers have surely passed, in one pass: there may be thousands.
  void SetCleared() {
    for (const Passage& passage : fast_) {
      (passage.crosses() ? left_ : inside_).insert(passage.hosts.begin(), passage.hosts.end());
      if (passage.hosts.size() == 2) pairs_.insert({passage.hosts[0], passage.hosts[1]});
      if (!passage.crosses() || !passage.one_of_each_host) continue;
      for (const std::size_t row : passage.transfer->rows) adapters_.insert({table_.hosts[row], table_.rails[row]});
    }
  }

  bool HasRow(const Passage& passage, int host, int rail) const {
    return std::any_of(passage.transfer->rows.begin(), passage.transfer->rows.end(),
                       [&](std::size_t row) { return table_.hosts[row] == host && table_.rails[row] == rail; });
  }

  Touch OnRail(const Passage& passage, int rail) const {
    const std::vector<std::size_t>& rows = passage.transfer->rows;
    const auto on = std::count_if(rows.begin(), rows.end(), [&](std::size_t row) { return table_.rails[row] == rail; });
    if (!passage.crosses() || on == 0) return Touch::kNo;
    return static_cast<std::size_t>(on) == rows.size() ? Touch::kYes : Touch::kMay;
  }

  static bool IsSpread(const Hosts& hosts, const std::vector<Hosts>& below) {
    return std::none_of(below.begin(), below.end(),
                        [&](const Hosts& one) { return Common(hosts, one) == hosts.size(); });
  }

  Touch Touches(const Component& one, const Passage& passage) const {
    const auto yes = [](bool is) { return is ? Touch::kYes : Touch::kNo; };
    const bool crosses = passage.crosses();
    switch (one.kind) {
      case Kind::kRanks: return yes(passage.transfer->is_message && passage.transfer->rows == one.rows);
      case Kind::kNic:
        if (!crosses || !HasRow(passage, one.hosts.front(), one.rail)) return Touch::kNo;
        return passage.one_of_each_host ? Touch::kYes : Touch::kMay;
      case Kind::kHostPair:
        if (Common(one.hosts, passage.hosts) < 2) return Touch::kNo;
        return passage.hosts.size() == 2 ? Touch::kYes : Touch::kMay;
      case Kind::kInside: return yes(!crosses && Has(passage.hosts, one.hosts.front()));
      case Kind::kUplink: return yes(crosses && Has(passage.hosts, one.hosts.front()));
      case Kind::kHost: return yes(Has(passage.hosts, one.hosts.front()));
      case Kind::kRail: return OnRail(passage, one.rail);
      case Kind::kWithin: return yes(Common(passage.hosts, one.hosts) >= 2);
      case Kind::kBeyond: {
        const std::size_t common = Common(passage.hosts, one.hosts);
        return yes(common >= 1 && common < passage.hosts.size());
      }
      case Kind::kSwitch: return yes(crosses && Common(passage.hosts, one.hosts) >= 1);
      case Kind::kSpine:
        return yes(crosses && Common(passage.hosts, one.hosts) >= 2 && IsSpread(passage.hosts, BelowOf(one)));
      case Kind::kNetwork: return yes(crosses);
    }
    return Touch::kNo;
  }

  const std::vector<Hosts>& BelowOf(const Component& spine) const {
    return std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.name == spine.name; })
        ->below;
  }

  // A fast transfer clears what it passes.
  bool IsCleared(const Component& one) const {
    switch (one.kind) {
      case Kind::kNic: return adapters_.contains({one.hosts.front(), one.rail});
      case Kind::kHostPair: return pairs_.contains({one.hosts[0], one.hosts[1]});
      case Kind::kInside: return inside_.contains(one.hosts.front());
      case Kind::kUplink: return left_.contains(one.hosts.front());
      case Kind::kHost: return inside_.contains(one.hosts.front()) || left_.contains(one.hosts.front());
      default: break;
    }
    return std::any_of(fast_.begin(), fast_.end(),
                       [&](const Passage& fast) { return Touches(one, fast) == Touch::kYes; });
  }

  void Try(Component component) {
    if (IsCleared(component)) return;
    Candidate candidate{std::move(component), std::vector<bool>(slow_.size()), 0, true};
    const Component& one = candidate.component;
    for (std::size_t i = 0; i < slow_.size(); ++i) {
      const Touch touch = Touches(one, slow_[i]);
      candidate.explains[i] = touch != Touch::kNo;
      candidate.count += candidate.explains[i];
      candidate.surely = candidate.surely && touch != Touch::kMay;
    }
    if (candidate.count > 0) candidates_.push_back(std::move(candidate));
  }

  Hosts AllHosts() const {
    Hosts all;
    for (std::size_t host = 0; host < table_.host_names.size(); ++host) all.push_back(static_cast<int>(host));
    return all;
  }

  // What the slow transfers pass.
  void Collect() {
    std::set<std::vector<std::size_t>> ranks;
    std::set<std::pair<int, int>> nics, pairs;
    std::set<int> hosts, rails;
    for (const Passage& passage : slow_) {
      if (passage.transfer->is_message) ranks.insert(passage.transfer->rows);
      hosts.insert(passage.hosts.begin(), passage.hosts.end());
      if (!passage.crosses()) continue;
      for (const std::size_t row : passage.transfer->rows)
        if (table_.rails[row] >= 0) {
          rails.insert(table_.rails[row]);
          const std::pair adapter(table_.hosts[row], table_.rails[row]);
          if (!adapters_.contains(adapter)) nics.insert(adapter);
        }
      if (passage.hosts.size() > kMostInRing) continue;
      for (std::size_t a = 0; a < passage.hosts.size(); ++a)
        for (std::size_t b = a + 1; b < passage.hosts.size(); ++b)
          if (const std::pair pair(passage.hosts[a], passage.hosts[b]); !pairs_.contains(pair)) pairs.insert(pair);
    }
    if (nics.size() > kMostOfAKind) nics.clear();
    if (pairs.size() > kMostOfAKind) pairs.clear();
    for (const auto& rows : ranks) Try({Kind::kRanks, HostsOf(rows), -1, rows, ""});
    for (const auto& [host, rail] : nics) Try({Kind::kNic, {host}, rail, {}, ""});
    for (const int host : hosts)
      for (const Kind kind : {Kind::kInside, Kind::kUplink, Kind::kHost}) Try({kind, {host}, -1, {}, ""});
    for (const int rail : rails) Try({Kind::kRail, {}, rail, {}, ""});
    for (const Group& group : groups_) {
      if (group.hosts.size() < table_.host_names.size())
        for (const Kind kind : {Kind::kWithin, Kind::kBeyond, Kind::kSwitch})
          Try({kind, group.hosts, -1, {}, group.name});
      if (group.below.size() >= 2) Try({Kind::kSpine, group.hosts, -1, {}, group.name});
    }
    Try({Kind::kNetwork, AllHosts(), -1, {}, ""});
    for (const auto& [a, b] : pairs) Try({Kind::kHostPair, {a, b}, -1, {}, ""});
  }

  Hosts HostsOf(const std::vector<std::size_t>& rows) const {
    std::set<int> hosts;
    for (const std::size_t row : rows) hosts.insert(table_.hosts[row]);
    return {hosts.begin(), hosts.end()};
  }

  // The smallest kind of which exactly one explains all; surely if it can be.
  std::optional<SlowParts> One() const {
    for (const bool surely : {true, false}) {
      std::map<Kind, std::vector<const Candidate*>> whole;
      for (const Candidate& one : candidates_)
        if (one.count == slow_.size() && (one.surely || !surely)) whole[one.component.kind].push_back(&one);
      for (const auto& [kind, all] : whole)
        if (all.size() == 1) return WithOthers(*all.front());
    }
    return std::nullopt;
  }

  // Smaller parts, and of larger ones those of one or two hosts.
  SlowParts WithOthers(const Candidate& chosen) const {
    SlowParts explanation{{chosen.component}, {}};
    for (const Candidate& other : candidates_) {
      if (&other == &chosen || other.count != slow_.size()) continue;
      if (other.component.kind < chosen.component.kind || (other.surely && other.component.kind <= Kind::kHost))
        explanation.instead.push_back(other.component);
    }
    std::stable_sort(explanation.instead.begin(), explanation.instead.end(),
                     [](const Component& a, const Component& b) { return a.kind < b.kind; });
    return explanation;
  }

  // Of those that explain the same the smallest stands for all.
  std::vector<const Candidate*> Distinct() const {
    std::map<std::vector<bool>, const Candidate*> by_reach;
    for (const Candidate& one : candidates_) {
      if (!one.surely) continue;
      const auto [at, fresh] = by_reach.try_emplace(one.explains, &one);
      if (!fresh && one.component.kind < at->second->component.kind) at->second = &one;
    }
    std::vector<const Candidate*> distinct;
    for (const auto& [reach, one] : by_reach) distinct.push_back(one);
    std::stable_sort(distinct.begin(), distinct.end(),
                     [](const Candidate* a, const Candidate* b) { return a->component.kind < b->component.kind; });
    return distinct;
  }

  // Two of a kind have one cause more often than two that have nothing in common: they come first, then small ones.
  static int SizeOf(Kind one, Kind other) {
    constexpr int kUnlike = 100;
    return static_cast<int>(one) + static_cast<int>(other) + (one == other ? 0 : kUnlike);
  }

  std::optional<SlowParts> Two() const {
    const std::vector<const Candidate*> all = Distinct();
    std::optional<SlowParts> found;
    int least = 0;
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        if (all[a]->count + all[b]->count < slow_.size()) continue;
        const int size = SizeOf(all[a]->component.kind, all[b]->component.kind);
        if (found && size >= least) continue;
        bool whole = true;
        for (std::size_t i = 0; i < slow_.size() && whole; ++i) whole = all[a]->explains[i] || all[b]->explains[i];
        if (!whole) continue;
        found = SlowParts{{all[a]->component, all[b]->component}, {}};
        least = size;
      }
    return found;
  }

  std::optional<SlowParts> Several() const {
    const std::vector<const Candidate*> all = Distinct();
    std::vector<bool> explained(slow_.size());
    SlowParts found;
    while (std::find(explained.begin(), explained.end(), false) != explained.end()) {
      const Candidate* best = nullptr;
      std::size_t most = 0;
      for (const Candidate* one : all) {
        std::size_t more = 0;
        for (std::size_t i = 0; i < slow_.size(); ++i) more += one->explains[i] && !explained[i];
        if (more > most) most = more, best = one;
      }
      if (best == nullptr || found.parts.size() == kMostParts) return std::nullopt;
      found.parts.push_back(best->component);
      for (std::size_t i = 0; i < slow_.size(); ++i) explained[i] = explained[i] || best->explains[i];
    }
    return found;
  }

  // Where a host is slow within itself, all that goes beyond it is slow for that.
  std::optional<SlowParts> WithinOneHost() {
    std::set<int> inside;
    for (const Passage& passage : slow_)
      if (!passage.crosses()) inside.insert(passage.hosts.front());
    if (inside.size() != 1) return std::nullopt;
    const bool others =
        std::any_of(fast_.begin(), fast_.end(), [&](const Passage& one) { return !Has(one.hosts, *inside.begin()); });
    if (others) Try({Kind::kHost, {*inside.begin()}, -1, {}, ""});
    if (candidates_.size() != 1 || candidates_.front().count != slow_.size()) return std::nullopt;
    return WithOthers(candidates_.front());
  }

  const StepTable& table_;
  std::vector<Passage> slow_, fast_;
  std::vector<Group> groups_;
  std::set<int> left_, inside_;                     // hosts: from them to others, within them
  std::set<std::pair<int, int>> pairs_, adapters_;  // of hosts; host and number
  std::vector<Candidate> candidates_;
};

}  // namespace

std::optional<SlowParts> ExplainSlow(const StepTable& table, const Topology& topology,
                                     const std::vector<std::size_t>& slow, const std::vector<std::size_t>& fast) {
  return Tomography(table, topology, slow, fast).Explain();
}

}  // namespace ncclwatch::diagnosis
