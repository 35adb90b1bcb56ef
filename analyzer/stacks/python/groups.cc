#include "analyzer/stacks/python/groups.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "analyzer/stacks/python/find.h"
#include "analyzer/stacks/python/reach.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {
namespace {

constexpr std::size_t kMostModules = 65536, kMostGlobals = 65536;
constexpr std::size_t kMostGroups = 1024, kMostRanks = 1u << 20;
constexpr std::size_t kMostName = 200;  // characters

constexpr char kTorch[] = "torch.distributed.distributed_c10d";
// Modules whose variables hold groups, or dicts of them by name: the variable's name is the group's where torch was
// given no description. megatron.core describes its groups from 0.9 on; deepspeed does not (0.19).
constexpr std::string_view kPlaces[] = {"megatron.core.parallel_state", "megatron.mpu.initialize",
                                        "deepspeed.utils.groups"};

struct Group {
  std::uint64_t object = 0;
  ProcessGroup facts;
};

// torch's own words for a group that got none.
bool IsDescribed(const std::string& description) { return description != "undefined"; }

// init_device_mesh(mesh_dim_names=("dp", "tp")) describes its groups as mesh_dp and mesh_tp.
std::string WithoutMesh(std::string description) {
  constexpr std::string_view kMesh = "mesh_", kNoDimension = "mesh_default";
  return description.starts_with(kMesh) && description != kNoDimension ? description.substr(kMesh.size()) : description;
}

class Groups {
 public:
  Groups(Reader* memory, const Layout& layout, std::uint64_t runtime)
      : memory_(memory), layout_(layout), objects_(memory, layout) {
    FindModules(runtime);
  }

  std::vector<ProcessGroup> Read(const std::vector<std::uint64_t>& handles);

 private:
  void FindModules(std::uint64_t runtime);
  std::vector<Item> GlobalsOf(std::string_view module);
  std::optional<std::uint64_t> Global(const std::vector<Item>& globals, std::string_view name);
  std::vector<Group> List();
  void Describe(Group* group);
  std::optional<std::string> CxxString(std::uint64_t address);
  void NameByPlaces(std::vector<Group>* groups);
  void NameBy(const std::string& variable, std::uint64_t value, bool nested, std::vector<Group>* groups);

  Reader* memory_;
  Layout layout_;
  Objects objects_;
  std::vector<Item> modules_;
  std::uint64_t interpreter_ = 0;
};

void Groups::FindModules(std::uint64_t runtime) {
  constexpr std::size_t kEnough = 256;
  auto interpreter = objects_.Pointer(runtime, kInterpreters);
  for (std::size_t i = 0; i < kEnough && interpreter && *interpreter != 0; ++i) {
    const auto modules = objects_.Pointer(*interpreter, kInterpreterModules);
    auto items = modules ? objects_.Items(*modules, kMostModules) : std::nullopt;
    // The main one is the last of the list, and most programs have no other.
    if (items) {
      modules_ = std::move(*items);
      interpreter_ = *interpreter;
    }
    interpreter = objects_.Pointer(*interpreter, kInterpreterNext);
  }
}

// Empty if the program has not imported it.
std::vector<Item> Groups::GlobalsOf(std::string_view module) {
  for (const Item& item : modules_) {
    const auto length = objects_.Pointer(item.key, kStrLength);
    if (length != module.size() || objects_.Str(item.key, module.size()) != module) continue;
    if (!objects_.IsA(item.value, "module")) return {};
    const auto globals = memory_->Value<std::uint64_t>(item.value + static_cast<std::uint64_t>(layout_[kObjectBytes]));
    return globals ? objects_.Items(*globals, kMostGlobals).value_or(std::vector<Item>()) : std::vector<Item>();
  }
  return {};
}

std::optional<std::uint64_t> Groups::Global(const std::vector<Item>& globals, std::string_view name) {
  const auto found = std::find_if(globals.begin(), globals.end(), [&](const Item& item) {
    return objects_.Pointer(item.key, kStrLength) == name.size() && objects_.Str(item.key, name.size()) == name;
  });
  return found == globals.end() ? std::nullopt : std::optional(found->value);
}

// In the order of their creation. The keys are C++ objects in Python's clothes.
std::vector<Group> Groups::List() {
  std::vector<Group> groups;
  const auto ranks = Global(GlobalsOf(kTorch), "_pg_group_ranks");
  const auto items = ranks ? objects_.Items(*ranks, kMostGroups) : std::nullopt;
  if (!items) return groups;
  for (const Item& item : *items) {
    const auto members = objects_.Items(item.value, kMostRanks);
    if (!members || members->empty()) continue;
    Group group{item.key, {}};
    group.facts.object = item.key;
    group.facts.size = static_cast<std::uint32_t>(members->size());
    Describe(&group);
    groups.push_back(std::move(group));
  }
  return groups;
}

// c10d::ProcessGroup has, since torch 1.13, its rank and size and a few words further its description. A string with
// another size before it is not taken for that.
void Groups::Describe(Group* group) {
  constexpr std::size_t kMostObject = 256, kMostBetween = 4 * kWord;
  const auto object = memory_->Value<std::uint64_t>(group->object + static_cast<std::uint64_t>(layout_[kObjectBytes]));
  if (!object) return;
  for (std::uint64_t at = 2 * kWord; at < kMostObject; at += kWord) {
    const auto text = CxxString(*object + at);
    for (std::uint64_t back = kWord; text && back <= std::min(at - kWord, kMostBetween); back += kWord) {
      const auto rank = memory_->Value<std::int32_t>(*object + at - back);
      const auto size = memory_->Value<std::uint32_t>(*object + at - back + sizeof(std::int32_t));
      if (!rank || size != group->facts.size || *rank < 0 || static_cast<std::uint32_t>(*rank) >= *size) continue;
      group->facts.rank = *rank;
      if (IsDescribed(*text)) group->facts.name = WithoutMesh(*text);
      return;
    }
  }
}

// What is not empty, of libstdc++ in both of its forms: {pointer, length, capacity or the text itself}, and, in torch's
// own packages until 2.6, a pointer behind {length, capacity, count}.
std::optional<std::string> Groups::CxxString(std::uint64_t address) {
  constexpr std::uint64_t kMostLength = 4096, kInside = 15;
  const auto word = [&](std::uint64_t at) { return memory_->Value<std::uint64_t>(at).value_or(0); };
  const std::uint64_t data = word(address);
  if (data < kMostLength) return std::nullopt;
  const bool inside = data == address + 2 * kWord;
  std::uint64_t length = word(address + kWord), capacity = inside ? kInside : word(address + 2 * kWord);
  const auto fits = [&] {
    return length > 0 && length <= capacity && capacity <= kMostLength && memory_->Value<char>(data + length) == '\0';
  };
  if (!fits()) {
    length = word(data - 3 * kWord);
    capacity = word(data - 2 * kWord);
    if (!fits()) return std::nullopt;
  }
  std::string text(length, '\0');
  if (!memory_->Read(data, text.data(), length)) return std::nullopt;
  const bool printable = std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return printable ? std::optional(text) : std::nullopt;
}

void Groups::NameByPlaces(std::vector<Group>* groups) {
  for (const std::string_view place : kPlaces)
    for (const Item& item : GlobalsOf(place))
      if (const auto variable = objects_.Str(item.key, kMostName)) NameBy(*variable, item.value, false, groups);
}

void Groups::NameBy(const std::string& variable, std::uint64_t value, bool nested, std::vector<Group>* groups) {
  for (Group& group : *groups)
    if (group.object == value && group.facts.name.empty())
      group.facts.name = variable.substr(std::min(variable.find_first_not_of('_'), variable.size()));
  if (nested || variable.find("GROUP") == std::string::npos) return;
  for (const Item& item : objects_.Items(value, kMostGroups).value_or(std::vector<Item>()))
    if (const auto key = objects_.Str(item.key, kMostName))
      NameBy(variable + "[" + *key + "]", item.value, true, groups);
}

std::vector<ProcessGroup> Groups::Read(const std::vector<std::uint64_t>& handles) {
  std::vector<Group> groups = List();
  NameByPlaces(&groups);
  std::vector<std::uint64_t> origins;
  for (const Group& group : groups) origins.push_back(group.object);
  if (!handles.empty()) {
    const Registered registered(memory_, &objects_, interpreter_);
    for (const auto& [handle, group] : Owners(memory_, &objects_, registered, origins, handles))
      groups[group].facts.handles.push_back(handle);
  }
  std::vector<ProcessGroup> facts;
  for (Group& group : groups) {
    std::sort(group.facts.handles.begin(), group.facts.handles.end());
    facts.push_back(std::move(group.facts));
  }
  return facts;
}

}  // namespace

std::vector<ProcessGroup> ReadGroups(Reader* memory, const Layout& layout, std::uint64_t runtime,
                                     const std::vector<std::uint64_t>& handles) {
  return Groups(memory, layout, runtime).Read(handles);
}

// Names are right when two readings are the same: the program may make a group meanwhile.
std::vector<ProcessGroup> ReadGroups(int pid, Modules* modules, const std::vector<std::uint64_t>& handles) {
  constexpr int kAttempts = 3;
  Memory memory(pid);
  const Runtime runtime = Find(&memory, modules);
  if (!runtime.layout) return {};
  PythonMemory checked(&memory, modules->maps(), modules->all()[runtime.module]);
  std::vector<ProcessGroup> groups;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    checked.Forget();
    std::vector<ProcessGroup> again = ReadGroups(&checked, *runtime.layout, runtime.address, handles);
    if (again.empty() || (attempt > 0 && again == groups)) return again;
    groups = std::move(again);
  }
  return {};
}

}  // namespace ncclwatch::stacks::python
