#include "analyzer/stacks/python/variables.h"

#include <algorithm>

namespace ncclwatch::stacks::python {
namespace {

using cpython::Item;
using cpython::kWord;
using cpython::Objects;

constexpr std::size_t kMostLocals = 256, kMostOfModule = 4096, kMostNumbers = 64;
constexpr std::size_t kMostVariableName = 64;  // characters
constexpr char kModule[] = "<module>";

// Names and values of a function; what has no value yet is left out.
std::vector<Item> Locals(Reader* memory, Objects* objects, std::uint64_t frame, std::uint64_t code) {
  const auto tuple = objects->Pointer(code, cpython::kCodeLocals);
  const auto names = tuple ? objects->Elements(*tuple, kMostLocals) : std::nullopt;
  if (!names) return {};
  std::vector<std::uint64_t> values(names->size());
  const auto begin = frame + static_cast<std::uint64_t>(objects->layout()[cpython::kFrameLocals]);
  if (!memory->Read(begin, values.data(), values.size() * kWord)) return {};
  std::vector<Item> items;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const std::uint64_t value = values[i] & ~cpython::kStackRefTag; value != 0)
      items.push_back({(*names)[i], value});
  return items;
}

std::vector<Item> Globals(Objects* objects, std::uint64_t frame) {
  const auto dict = objects->Pointer(frame, cpython::kFrameNamespace);
  return dict ? objects->Items(*dict, kMostOfModule).value_or(std::vector<Item>()) : std::vector<Item>();
}

}  // namespace

void ReadVariables(Reader* memory, Objects* objects, std::uint64_t frame, std::uint64_t code, Frame* to) {
  for (Item item : to->function == kModule ? Globals(objects, frame) : Locals(memory, objects, frame, code)) {
    // A variable that an inner function uses.
    if (objects->IsA(item.value, "cell"))
      item.value =
          memory
              ->Value<std::uint64_t>(item.value + static_cast<std::uint64_t>(objects->layout()[cpython::kObjectBytes]))
              .value_or(0);
    const auto number = objects->Number(item.value);
    const bool group = !number && objects->IsA(item.value, "ProcessGroup");
    if (!number && !group) continue;
    auto name = objects->Str(item.key, kMostVariableName);
    if (!name) continue;
    if (group && *name == "group") to->group = item.value;
    if (number && to->numbers.size() < kMostNumbers) to->numbers.push_back({std::move(*name), *number});
  }
}

}  // namespace ncclwatch::stacks::python
