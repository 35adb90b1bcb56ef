// Slow links in step tables that are made from random numbers: which hosts, rail, pair or switch is named, and that
// nothing is where nothing has changed.
#include "core/slow/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace ncclwatch::diagnosis {
namespace {

constexpr int kHosts = 32, kGpus = 8, kLeaf = 8;  // hosts behind one leaf switch
constexpr std::size_t kSteps = 120;
constexpr double kLeafStep_s = 7.0, kInside_s = 2.8;  // of a step, and of what goes on behind a leaf switch in it
constexpr double kSlowdown = 42.0 / 17.0;
constexpr std::uint64_t kGradient = 10ull << 30;

std::string HostName(int host) { return (host < 10 ? "node0" : "node") + std::to_string(host); }

Topology Leaves() {
  std::string wrong;
  return ParseTopology(
      "# the machine room\n"
      "SwitchName=leaf0 Nodes=node[00-07]\nSwitchName=leaf1 Nodes=node[08-15]\n"
      "SwitchName=leaf2 Nodes=node[16-23]\nSwitchName=leaf3 Nodes=node[24-31]\nSwitchName=spine Switches=leaf[0-3]\n",
      &wrong);
}

using Factor = std::function<double(const StepTransfers&, std::size_t step)>;

// 256 ranks: each host a tensor-parallel group; gradients are reduced among the hosts behind a leaf, then among leaves.
class LinkJob {
 public:
  LinkJob() {
    for (int host = 0; host < kHosts; ++host) {
      table.host_names.push_back(HostName(host));
      for (int gpu = 0; gpu < kGpus; ++gpu) {
        table.ranks.push_back(host * kGpus + gpu);
        table.hosts.push_back(host);
        table.rails.push_back(gpu);
      }
    }
    table.parts.assign(table.ranks.size(), std::vector<StepPart>(kSteps));
    for (int host = 0; host < kHosts; ++host) AddCommunicator(0.8, [&](int h, int) { return h == host; });
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      for (int leaf = 0; leaf < kHosts / kLeaf; ++leaf)
        AddCommunicator(kInside_s, [&](int h, int g) { return g == gpu && h / kLeaf == leaf; });
      for (int place = 0; place < kLeaf; ++place)
        AddCommunicator(0.4, [&](int h, int g) { return g == gpu && h % kLeaf == place; });
    }
  }

  // What all do takes as long as the slowest: a step grows by the most that one of its transfers does.
  void Run(unsigned seed, const Factor& factor) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> jitter(0.95, 1.05);
    std::vector<double> grown(kSteps);
    for (std::size_t i = 0; i < table.transfers.size(); ++i) {
      StepTransfers& one = table.transfers[i];
      one.calls = kSteps;
      for (std::size_t step = 0; step < kSteps; ++step) {
        const double by = factor(one, step);
        one.times.push_back({step, static_cast<std::int64_t>(usual_s[i] * 1e9 * by * jitter(random))});
        grown[step] = std::max(grown[step], usual_s[i] * (by - 1));
      }
    }
    std::int64_t now = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      const auto length = static_cast<std::int64_t>((kLeafStep_s * jitter(random) + grown[step]) * 1e9);
      for (auto& row : table.parts) row[step].began_ns = now, row[step].duration_ns = length;
      now += length;
    }
  }

  void AddMessages(int from, int to) {
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      StepTransfers one;
      one.function = functions::Function::ncclSend;
      one.is_message = true;
      one.bytes = kGradient;
      one.rows = {static_cast<std::size_t>(from * kGpus + gpu), static_cast<std::size_t>(to * kGpus + gpu)};
      table.transfers.push_back(one);
      usual_s.push_back(0.5);
    }
  }

  void AddCommunicator(double seconds, const std::function<bool(int, int)>& has) {
    StepTransfers one;
    one.function = functions::Function::ncclAllReduce;
    one.bytes = kGradient;
    for (std::size_t row = 0; row < table.ranks.size(); ++row)
      if (has(table.hosts[row], table.rails[row])) one.rows.push_back(row);
    table.transfers.push_back(one);
    usual_s.push_back(seconds);
  }

  std::optional<SlowLinks> Find(const Topology& topology = {}) const {
    return FindSlowLinks(table, topology, 0.2, 0.03);
  }

  int HostsOf(const StepTransfers& one, const std::function<bool(int)>& is) const {
    int count = 0;
    for (const std::size_t row : one.rows) count += is(table.hosts[row]);
    return count;
  }

  StepTable table;
  std::vector<double> usual_s;
};

std::vector<std::string> Names(int first, int last) {
  std::vector<std::string> names;
  for (int host = first; host <= last; ++host) names.push_back(HostName(host));
  return names;
}

// The worked case: 42 to 17 GB/s behind one switch, the step from 7.0 to 11.2 s, computation as before.
TEST(SlowLinks, BehindOneSwitch) {
  int right = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const int leaf = static_cast<int>(seed) % 4;
    const std::size_t from = 30 + seed % 60;
    LinkJob job;
    job.Run(seed, [&](const StepTransfers& one, std::size_t step) {
      const bool behind =
          job.HostsOf(one, [&](int host) { return host / kLeaf == leaf; }) == static_cast<int>(one.rows.size());
      const bool within = job.HostsOf(one, [&](int host) { return host == job.table.hosts[one.rows.front()]; }) ==
                          static_cast<int>(one.rows.size());
      return behind && !within && step >= from ? kSlowdown : 1.0;
    });
    for (const Topology& topology : {Topology(), Leaves()}) {
      const auto found = job.Find(topology);
      ASSERT_TRUE(found) << seed;
      const bool hosts = found->hosts == Names(leaf * kLeaf, leaf * kLeaf + kLeaf - 1);
      const bool named = found->switch_name == (topology.empty() ? "" : "leaf" + std::to_string(leaf));
      const bool onset = std::abs(static_cast<double>(found->onset) - static_cast<double>(from)) <= 10;
      const bool share =
          std::abs(found->share - kInside_s * (kSlowdown - 1) / (kLeafStep_s + kInside_s * (kSlowdown - 1))) < 0.05;
      right += hosts && named && onset && share && found->rows.size() == kLeaf * kGpus;
    }
  }
  EXPECT_GE(right, 2 * 49);
}

// Many calls in the last steps are few steps all the same.
TEST(SlowLinks, OfTheLastFewStepsNothingIsSaid) {
  for (const std::size_t last : {5u, 60u}) {
    LinkJob job;
    job.Run(5, [&](const StepTransfers& one, std::size_t step) {
      return job.HostsOf(one, [](int host) { return host == 13; }) == kGpus && step + last >= kSteps ? 5.0 : 1.0;
    });
    for (StepTransfers& one : job.table.transfers) {
      const std::vector<StepTransfers::Timed> once = one.times;
      for (int more = 0; more < 4; ++more) one.times.insert(one.times.end(), once.begin(), once.end());
      std::stable_sort(one.times.begin(), one.times.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; });
    }
    EXPECT_EQ(job.Find().has_value(), last == 60) << last;
  }
}

TEST(SlowLinks, OneHostsAdapter) {
  LinkJob job;
  job.Run(1, [&](const StepTransfers& one, std::size_t step) {
    const int own = job.HostsOf(one, [](int host) { return host == 13; });
    return own > 0 && own < static_cast<int>(one.rows.size()) && step >= 40 ? 2.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->hosts, Names(13, 13));
  EXPECT_EQ(found->switch_name, "");
}

TEST(SlowLinks, WithinOneHost) {
  LinkJob job;
  job.Run(2, [&](const StepTransfers& one, std::size_t step) {
    return job.HostsOf(one, [](int host) { return host == 5; }) == kGpus && step >= 40 ? 3.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->hosts, Names(5, 5));
}

TEST(SlowLinks, OneRail) {
  LinkJob job;
  job.Run(3, [&](const StepTransfers& one, std::size_t step) {
    const bool between = job.HostsOf(one, [&](int host) { return host == job.table.hosts[one.rows.front()]; }) == 1;
    return between && job.table.rails[one.rows.front()] == 3 && step >= 40 ? 2.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rail, 3);
  EXPECT_EQ(found->rows.size(), static_cast<std::size_t>(kHosts));
}

TEST(SlowLinks, OnePair) {
  LinkJob job;
  for (std::size_t row = 0; row + 8 < 64; row += 8) {
    StepTransfers one;
    one.function = functions::Function::ncclSend;
    one.is_message = true;
    one.bytes = 1 << 28;
    one.rows = {row, row + 8};
    job.table.transfers.push_back(one);
    job.usual_s.push_back(0.5);
  }
  job.Run(4, [](const StepTransfers& one, std::size_t step) {
    return one.is_message && one.rows.front() == 16 && step >= 40 ? 3.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pair, (std::vector<std::size_t>{16, 24}));
  EXPECT_EQ(found->hosts, Names(2, 3));
}

// The two rings that pass it are slow, and nothing else.
TEST(SlowLinks, OneNetworkAdapter) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const int host = static_cast<int>(seed) % kHosts, gpu = static_cast<int>(seed) % kGpus;
    LinkJob job;
    const std::size_t row = static_cast<std::size_t>(host * kGpus + gpu);
    job.Run(seed, [&](const StepTransfers& one, std::size_t step) {
      const bool passes = std::find(one.rows.begin(), one.rows.end(), row) != one.rows.end();
      return passes && one.rows.front() / kGpus != one.rows.back() / kGpus && step >= 40 ? 2.0 : 1.0;
    });
    for (const Topology& topology : {Topology(), Leaves()}) {
      const auto found = job.Find(topology);
      ASSERT_TRUE(found) << seed;
      EXPECT_EQ(found->rows, std::vector<std::size_t>{row}) << seed;
      EXPECT_EQ(found->hosts, Names(host, host)) << seed;
      EXPECT_EQ(found->rail, gpu) << seed;
    }
  }
}

// All GPUs of two hosts exchange messages; the same hosts are fast in all else.
TEST(SlowLinks, OnePairOfHosts) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const int slow = static_cast<int>(seed) % (kHosts - 1);
    LinkJob job;
    for (int host = 0; host + 1 < kHosts; ++host) job.AddMessages(host, host + 1);
    job.Run(seed, [&](const StepTransfers& one, std::size_t step) {
      return one.is_message && job.table.hosts[one.rows.front()] == slow && step >= 40 ? 3.0 : 1.0;
    });
    const auto found = job.Find(Leaves());
    ASSERT_TRUE(found) << seed;
    EXPECT_EQ(found->hosts, Names(slow, slow + 1)) << seed;
    EXPECT_EQ(found->rows.size(), 2u * kGpus) << seed;
  }
}

// On a machine with few processors whoever waits polls, and everything else becomes a little slower.
TEST(SlowLinks, OnePairOfHostsBesideSmallRises) {
  LinkJob job;
  for (int host = 0; host + 1 < kHosts; ++host) job.AddMessages(host, host + 1);
  job.Run(10, [&](const StepTransfers& one, std::size_t step) {
    if (!one.is_message || step < 40) return 1.0;
    return job.table.hosts[one.rows.front()] == 5 ? 20.0 : 1.6;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->hosts, Names(5, 6));
}

TEST(SlowLinks, BetweenTheSwitches) {
  LinkJob job;
  job.Run(6, [&](const StepTransfers& one, std::size_t step) {
    const int first = job.table.hosts[one.rows.front()] / kLeaf, last = job.table.hosts[one.rows.back()] / kLeaf;
    return first != last && step >= 40 ? 4.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->parts.size(), 1u);
  EXPECT_EQ(found->parts.front().kind, Component::Kind::kSpine);
  EXPECT_EQ(found->switch_name, "spine");
}

// All that passes a switch: among its hosts and beyond.
TEST(SlowLinks, AllOfOneSwitch) {
  LinkJob job;
  job.Run(7, [&](const StepTransfers& one, std::size_t step) {
    const bool between = job.table.hosts[one.rows.front()] != job.table.hosts[one.rows.back()];
    return between && job.HostsOf(one, [](int host) { return host / kLeaf == 2; }) > 0 && step >= 40 ? 3.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->switch_name, "leaf2");
  EXPECT_EQ(found->hosts, Names(16, 23));
}

TEST(SlowLinks, TwoAdaptersAtOnce) {
  LinkJob job;
  job.Run(8, [&](const StepTransfers& one, std::size_t step) {
    const auto passes = [&](std::size_t row) {
      return std::find(one.rows.begin(), one.rows.end(), row) != one.rows.end();
    };
    const bool between = one.rows.front() / kGpus != one.rows.back() / kGpus;
    return between && (passes(3 * kGpus + 1) || passes(20 * kGpus + 6)) && step >= 40 ? 2.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->parts.size(), 2u);
  EXPECT_EQ(found->rows, (std::vector<std::size_t>{3 * kGpus + 1, 20 * kGpus + 6}));
}

// A slow pair of hosts behind the switch would look like the switch.
TEST(SlowLinks, TellsWhatElseItCouldBe) {
  LinkJob job;
  job.Run(9, [&](const StepTransfers& one, std::size_t step) {
    const int first = job.table.hosts[one.rows.front()], last = job.table.hosts[one.rows.back()];
    return first != last && first / kLeaf == 1 && last / kLeaf == 1 && step >= 40 ? 2.0 : 1.0;
  });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->switch_name, "leaf1");
  EXPECT_EQ(found->instead.size(), kLeaf * (kLeaf - 1) / 2u);
  EXPECT_EQ(found->instead.front().kind, Component::Kind::kHostPair);
}

// Sixteen thousand ranks, of whose rings one spans all hosts and is slow: nobody can be told apart, and the hub must
// not be held up over it.
TEST(SlowLinks, OneRingOverTwoThousandHosts) {
  constexpr int kMany = 2048;
  StepTable table;
  std::vector<std::size_t> slow, fast;
  const auto add = [&](std::vector<std::size_t> rows, std::vector<std::size_t>* to) {
    StepTransfers one;
    one.bytes = kGradient;
    one.rows = std::move(rows);
    to->push_back(table.transfers.size());
    table.transfers.push_back(std::move(one));
  };
  for (int host = 0; host < kMany; ++host) {
    table.host_names.push_back(std::to_string(host));
    std::vector<std::size_t> rows;
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      rows.push_back(table.ranks.size());
      table.ranks.push_back(host * kGpus + gpu);
      table.hosts.push_back(host);
      table.rails.push_back(gpu);
    }
    add(rows, &fast);
  }
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    std::vector<std::size_t> ring;
    for (int host = 0; host < kMany; ++host) ring.push_back(static_cast<std::size_t>(host * kGpus + gpu));
    add(ring, gpu < 4 ? &slow : &fast);
  }
  const auto found = ExplainSlow(table, {}, slow, fast);
  EXPECT_FALSE(found && found->parts.size() == 1);
}

// Slower than their like from the first step on: nothing rose.
TEST(SlowLinks, FromTheBeginning) {
  LinkJob job;
  job.Run(5, [&](const StepTransfers& one, std::size_t) {
    const int own = job.HostsOf(one, [](int host) { return host == 13; });
    return own > 0 && own < static_cast<int>(one.rows.size()) ? 2.0 : 1.0;
  });
  const auto found = job.Find();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->since_before);
  EXPECT_EQ(found->hosts, Names(13, 13));
}

// Those alike differ anyway: the slowest of them stands out no more than that.
TEST(SlowLinks, SilentWhereThoseAlikeScatter) {
  LinkJob job;
  job.Run(11, [&](const StepTransfers& one, std::size_t) {
    const int host = job.table.hosts[one.rows.front()];
    return host == 13 ? 2.0 : 1.0 + 0.1 * (host % 7);
  });
  EXPECT_FALSE(job.Find());
}

TEST(SlowLinks, AllOfThem) {
  LinkJob job;
  job.Run(6, [](const StepTransfers&, std::size_t step) { return step >= 40 ? 2.0 : 1.0; });
  const auto found = job.Find(Leaves());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->rows.empty() && found->hosts.empty() && found->switch_name.empty());
}

TEST(SlowLinks, SilentWhereNothingChanges) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    LinkJob job;
    job.Run(seed, [&](const StepTransfers&, std::size_t step) { return step % 20 == 19 ? 1.5 : 1.0; });
    EXPECT_FALSE(job.Find(Leaves())) << seed;
  }
}

// A fifth of what takes a hundredth of the step is nobody's matter.
TEST(SlowLinks, SilentBelowTheStatedEffect) {
  LinkJob job;
  job.Run(7, [&](const StepTransfers& one, std::size_t step) {
    const bool small = job.usual_s[static_cast<std::size_t>(&one - job.table.transfers.data())] < 0.5;
    return small && step >= 40 ? 1.4 : 1.0;
  });
  EXPECT_FALSE(job.Find(Leaves()));
}

TEST(Topology, ReadsSlurmsSyntax) {
  EXPECT_EQ(HostsOfList("n[8-10],login"), (std::vector<std::string>{"n8", "n9", "n10", "login"}));
  EXPECT_EQ(HostsOfList("r[1-2]n[01,03]"), (std::vector<std::string>{"r1n01", "r1n03", "r2n01", "r2n03"}));
  for (const char* list : {"n[1-", "n[3-1]", "n[x]", "n[1-999999999]", ",", "n[]"})
    EXPECT_FALSE(HostsOfList(list)) << list;
  std::string wrong;
  const Topology topology = ParseTopology(
      "switchname=a nodes=h[1-2] LinkSpeed=100 # x\nSwitchName=b Nodes=h3\nSwitchName=t Switches=a,b\n"
      "BlockName=z Nodes=h1\nSwitchName=bad Nodes=h[\n",
      &wrong);
  ASSERT_EQ(topology.size(), 3u);
  EXPECT_EQ(topology.front().name, "b");
  EXPECT_EQ(topology.back().name, "t");
  EXPECT_EQ(topology.back().hosts, (std::set<std::string, std::less<>>{"h1", "h2", "h3"}));
  EXPECT_EQ(wrong, "SwitchName=bad Nodes=h[");
  // A switch that stands above itself ends somewhere.
  EXPECT_EQ(ParseTopology("SwitchName=x Switches=x Nodes=h\n", &wrong).size(), 1u);
}

}  // namespace
}  // namespace ncclwatch::diagnosis
