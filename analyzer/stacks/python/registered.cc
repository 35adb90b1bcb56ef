#include "analyzer/stacks/python/registered.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace ncclwatch::stacks::python {
namespace {

constexpr int kMostOfABucket = 64, kSomeNodes = 16;

}  // namespace

// The capsule `__pybind11_internals_v12...` in the interpreter's dict of its own, which lies 0.5 to 0.8 KiB behind the
// pointer to sys.modules (CPython 3.9 to 3.13); it points to a pointer to pybind11's `internals`.
std::uint64_t Registered::Internals(std::uint64_t interpreter) const {
  constexpr std::size_t kMostEntries = 64, kMostName = 200;
  std::array<std::uint64_t, 512> words{};
  const Layout& layout = objects_->layout();
  if (!memory_->Read(interpreter + static_cast<std::uint64_t>(layout[kInterpreterModules]), words.data(), sizeof words))
    return 0;
  const auto word = [&](std::uint64_t at) { return memory_->Value<std::uint64_t>(at).value_or(0); };
  for (const std::uint64_t dict : words) {
    if (dict % kWord != 0 || !objects_->IsA(dict, "dict")) continue;
    for (const Item& item : objects_->Items(dict, kMostEntries).value_or(std::vector<Item>())) {
      const auto key = objects_->Str(item.key, kMostName);
      if (key && key->starts_with("__pybind11_internals_") && objects_->IsA(item.value, "PyCapsule"))
        return word(word(item.value + static_cast<std::uint64_t>(layout[kObjectBytes])));
    }
  }
  return 0;
}

// The C++ object's address is the first word of an object of one class; other layouts are not followed.
bool Registered::StandsFor(std::uint64_t object, std::uint64_t address) const {
  const auto bytes = static_cast<std::uint64_t>(objects_->layout()[kObjectBytes]);
  return address != 0 && memory_->Value<std::uint64_t>(object + bytes) == address;
}

bool Registered::HasObjects(const Table& table) const {
  std::uint64_t at = table.first;
  for (int i = 0; i < kSomeNodes && at != 0; ++i) {
    const auto node = memory_->Value<Node>(at);
    if (!node) return false;
    if (StandsFor(node->object, node->address)) return true;
    at = node->next;
  }
  return false;
}

Registered::Registered(Reader* memory, Objects* objects, std::uint64_t interpreter)
    : memory_(memory), objects_(objects) {
  std::array<std::uint64_t, 128> words{};
  const std::uint64_t internals = Internals(interpreter);
  if (internals == 0 || !memory_->Read(internals, words.data(), sizeof words)) return;
  for (std::size_t i = 0; i + sizeof(Table) / kWord <= words.size(); ++i) {
    Table table;
    std::memcpy(static_cast<void*>(&table), &words[i], sizeof table);
    if (table.most_load != 1.0f || table.bucket_count == 0 || !HasObjects(table)) continue;
    table_ = table;
    return;
  }
}

std::uint64_t Registered::ObjectFor(std::uint64_t address) const {
  if (table_.bucket_count == 0) return 0;
  const auto bucket = [&](std::uint64_t key) { return key % table_.bucket_count; };
  const auto before = memory_->Value<std::uint64_t>(table_.buckets + bucket(address) * kWord);
  std::uint64_t at = before && *before != 0 ? memory_->Value<std::uint64_t>(*before).value_or(0) : 0;
  for (int i = 0; i < kMostOfABucket && at != 0; ++i) {
    const auto node = memory_->Value<Node>(at);
    if (!node || bucket(node->address) != bucket(address)) return 0;
    if (node->address == address && StandsFor(node->object, address)) return node->object;
    at = node->next;
  }
  return 0;
}

}  // namespace ncclwatch::stacks::python
