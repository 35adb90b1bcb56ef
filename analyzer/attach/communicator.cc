#include "analyzer/attach/communicator.h"

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/base/memory.h"

namespace ncclwatch::analyzer::attach {
namespace {

// MPICH's handles are numbers: how the object is stored (0: it is null), its kind, and its index.
constexpr std::uint64_t kStorage = 30, kKind = 26, kKindMask = 0xf, kCommunicator = 1;
constexpr std::uint64_t kMpichWorld = 0x44000000, kMpichSelf = 0x44000001;

std::string OfNumber(std::uint64_t value) {
  if (value >> 32 != 0 || value >> kStorage == 0 || (value >> kKind & kKindMask) != kCommunicator) return "";
  if (value == kMpichWorld) return kWorld;
  return value == kMpichSelf ? "MPI_COMM_SELF" : "another communicator than MPI_COMM_WORLD";
}

// Open MPI's are pointers to an object that has its name near its beginning, as MPICH's objects have. In memory that
// cannot be written there are only texts about communicators.
std::string OfPointer(const stacks::Memory& memory, const stacks::Maps& maps, std::uint64_t value) {
  const stacks::Mapping* const mapping = maps.At(value);
  if (mapping == nullptr || !mapping->writable) return "";
  std::array<char, 256> object{};
  const std::size_t bytes = memory.ReadNow(value, object.data(), object.size());
  const std::string_view text(object.data(), bytes);
  for (const std::string_view begin : {"MPI_COMM_", "MPI COMMUNICATOR "}) {
    const std::size_t at = text.find(begin);
    if (at == std::string_view::npos || at == 0 || text[at - 1] != '\0') continue;
    const std::size_t end = text.find('\0', at);
    if (end != std::string_view::npos) return std::string(text.substr(at, end - at));
  }
  return "";
}

}  // namespace

std::string CommunicatorOf(int pid, const stacks::Frame& call) {
  const stacks::Memory memory(pid);
  const stacks::Maps maps = stacks::Maps::Of(pid);
  std::set<std::string> names;
  for (unsigned number = 0; number < stacks::kRegisters; ++number) {
    const std::uint64_t value = call.registers.Get(number).value_or(0);
    std::string name = OfNumber(value);
    if (name.empty()) name = OfPointer(memory, maps, value);
    if (!name.empty()) names.insert(std::move(name));
  }
  return names.size() == 1 ? *names.begin() : "";
}

}  // namespace ncclwatch::analyzer::attach
