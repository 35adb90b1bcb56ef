// Groups of torch in processes made up: every version's layout, groups with the same members, memory of any kind.
#include "analyzer/stacks/python/groups.h"

#include <gtest/gtest.h>

#include <random>

#include "analyzer/stacks/python/reach.h"
#include "tests/python_stacks/fake_process.h"

namespace ncclwatch::stacks::python {
namespace {

using testing::FakeProcess;

constexpr std::pair<int, bool> kVersionsWithGroups[] = {{9, false},  {10, false}, {11, false}, {12, false}, {13, false},
                                                        {14, false}, {15, false}, {13, true},  {14, true},  {15, true}};
constexpr std::uint64_t kWorldHandle = 0x7e0000001000, kPairHandle = 0x7e0000002000, kTwinHandle = 0x7e0000003000;

// A job's rank 1 with its groups, each of which has its communicator behind two tables, and all of which share a store.
class TorchProgram {
 public:
  TorchProgram(int minor, bool free_threaded) : process(minor, free_threaded) {
    store_ = Cxx({0, 0, kWorldHandle + 8});
    modules_ = {{process.Str(U"sys"), Module({})}};
    const std::uint64_t interpreter = process.Interpreter(0);
    Group("default_pg", {0, 1, 2, 3}, kWorldHandle);
    Group("pair", {0, 1}, kPairHandle);
    Group("mesh_tp", {0, 1}, kTwinHandle);
    const std::uint64_t nameless = Group("undefined", {1, 2}, 0);
    modules_.push_back({process.Str(U"torch.distributed.distributed_c10d"),
                        Module({{process.Str(U"_pg_group_ranks"), Dict(groups_, false)}})});
    modules_.push_back({process.Str(U"megatron.core.parallel_state"),
                        Module({{process.Str(U"_DATA_PARALLEL_GROUP_GLOO"), 0},
                                {process.Str(U"_EXPERT_GROUP"), Dict({{process.Str(U"ep_2"), nameless}}, true)}})});
    process.PutPointer(interpreter, kInterpreterModules, Dict(modules_, true));
  }

  std::vector<ProcessGroup> Read(const std::vector<std::uint64_t>& handles) {
    std::vector<ProcessGroup> groups = ReadGroups(&process, process.layout(), process.runtime(), handles);
    for (ProcessGroup& group : groups) group.object = 0;
    return groups;
  }

  FakeProcess process;

 private:
  std::uint64_t Dict(const std::vector<Item>& items, bool of_names) {
    const bool old = process.layout().minor <= 10;
    const std::uint64_t words = of_names && !old ? 2 : 3, header = old ? 40 : 32, indices = 8;
    const std::uint64_t keys = process.Allocate(header + indices + (items.size() + 1) * words * kWord);
    process.Put(keys + kWord, old ? std::uint64_t{8} : std::uint64_t{3 | 3 << 8} | std::uint64_t{of_names} << 16);
    process.Put(keys + (old ? 4 : 3) * kWord, std::uint64_t{items.size() + 1});  // and one that was taken out
    std::uint64_t at = keys + header + indices + words * kWord;
    for (const Item& item : items) {
      process.Put(at + (words - 2) * kWord, item.key);
      process.Put(at + (words - 1) * kWord, item.value);
      at += words * kWord;
    }
    const std::uint64_t dict = process.Object("dict", 0), fields = dict + Head();
    process.Put(fields + 2 * kWord, keys);
    return dict;
  }
  std::uint64_t Module(const std::vector<Item>& globals) {
    const std::uint64_t module = process.Object("module", 0);
    process.Put(module + Head(), Dict(globals, true));
    return module;
  }
  // With the header that glibc puts before it.
  std::uint64_t Cxx(const std::vector<std::uint64_t>& words) {
    const std::uint64_t bytes = std::max<std::uint64_t>(words.size() * kWord, 24);
    const std::uint64_t at = process.Allocate(2 * kWord + bytes) + 2 * kWord;
    process.Put(at - kWord, (bytes + kWord) | 1);
    for (std::size_t i = 0; i < words.size(); ++i) process.Put(at + i * kWord, words[i]);
    return at;
  }
  std::uint64_t Group(const std::string& description, const std::vector<std::uint64_t>& ranks, std::uint64_t handle) {
    const std::uint64_t communicator = Cxx({1, 2, handle}), backend = Cxx({7, store_, Cxx({0, 5, communicator})});
    std::uint64_t rank = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) rank = ranks[i] == 1 ? i : rank;
    std::vector<std::uint64_t> words(12);
    words[1] = std::uint64_t{ranks.size()} << 32 | 1;  // counts, that look like a rank and a size
    words[2] = store_;
    words[3] = std::uint64_t{ranks.size()} << 32 | rank;
    words[6] = description.size();
    words[10] = Cxx({0, 1, backend});
    const std::uint64_t object = Cxx(words);
    process.Put(object + 5 * kWord, object + 7 * kWord);
    std::memcpy(&process.memory()[object + 7 * kWord - FakeProcess::kBase], description.data(), description.size());
    const std::uint64_t group = process.Object("ProcessGroup", 0);
    process.Put(group + Head(), object);
    std::vector<Item> members;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      members.push_back({process.Object("int", 0), process.Object("int", 0)});
    groups_.push_back({group, Dict(members, false)});
    return group;
  }
  std::uint64_t Head() const { return static_cast<std::uint64_t>(process.layout()[kObjectBytes]); }

  std::uint64_t store_ = 0;
  std::vector<Item> modules_, groups_;
};

class GroupsOfEveryVersion : public ::testing::TestWithParam<std::pair<int, bool>> {
 protected:
  TorchProgram program{GetParam().first, GetParam().second};
};
INSTANTIATE_TEST_SUITE_P(Python3, GroupsOfEveryVersion, ::testing::ValuesIn(kVersionsWithGroups),
                         [](const ::testing::TestParamInfo<std::pair<int, bool>>& version) {
                           return std::to_string(version.param.first) + (version.param.second ? "t" : "");
                         });

TEST_P(GroupsOfEveryVersion, AreToldApartByTheirCommunicators) {
  using Handles = std::vector<std::uint64_t>;
  EXPECT_EQ(program.Read({kTwinHandle, kWorldHandle, kPairHandle, 0x7e0000004000}),
            (std::vector<ProcessGroup>{{"default_pg", 4, 1, Handles{kWorldHandle}},
                                       {"pair", 2, 1, Handles{kPairHandle}},
                                       {"tp", 2, 1, Handles{kTwinHandle}},
                                       {"EXPERT_GROUP[ep_2]", 2, 0, Handles{}}}));
}

TEST_P(GroupsOfEveryVersion, WhatTheyShareIsNobodys) {
  for (const ProcessGroup& group : program.Read({kWorldHandle + 8})) EXPECT_TRUE(group.handles.empty()) << group.name;
}

TEST_P(GroupsOfEveryVersion, AnyMemoryIsReadToAnEnd) {
  const std::vector<std::uint8_t> whole = program.process.memory();
  std::mt19937_64 draw(GetParam().first);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint8_t>& memory = program.process.memory();
    memory = whole;
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t at = draw() % (memory.size() / kWord) * kWord;
      const std::uint64_t word = draw() % 2 == 0 ? draw() : FakeProcess::kBase + draw() % memory.size() / kWord * kWord;
      std::memcpy(&memory[at], &word, sizeof(word));
    }
    program.Read({kTwinHandle, kWorldHandle, kPairHandle});
  }
}

}  // namespace
}  // namespace ncclwatch::stacks::python
