#include "analyzer/attach/rendezvous.h"

#include <absl/strings/str_join.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"

namespace ncclwatch::analyzer::attach {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT="};
constexpr std::size_t kMostVariables = 4096;

// A program that names the variable has it; else it is libc's.
std::uint64_t AddressOfEnvironment(stacks::Modules* modules) {
  const auto libc = modules->Starting("libc.so");
  for (const std::size_t index : {std::size_t{0}, libc.value_or(0)}) {
    if (index >= modules->all().size()) continue;
    if (const std::uint64_t address = modules->Opened(index).AddressOf("environ")) return address;
  }
  return 0;
}

std::string TextAt(const stacks::Memory& memory, std::uint64_t address) {
  std::array<char, 512> text{};
  const std::size_t bytes = memory.ReadNow(address, text.data(), text.size());
  return {text.data(), strnlen(text.data(), bytes)};
}

}  // namespace

std::string RendezvousOf(int pid) {
  stacks::Memory memory(pid);
  stacks::Modules modules(&memory, nullptr);
  const std::uint64_t variable = AddressOfEnvironment(&modules);
  const auto first = variable == 0 ? std::nullopt : memory.Value<std::uint64_t>(variable);
  if (!first) return "";
  std::array<std::string, kNames.size()> found;
  for (std::size_t i = 0; i < kMostVariables; ++i) {
    const auto entry = memory.Value<std::uint64_t>(*first + i * sizeof(std::uint64_t));
    if (!entry || *entry == 0) break;
    const std::string text = TextAt(memory, *entry);
    for (std::size_t name = 0; name < kNames.size(); ++name)
      if (found[name].empty() && text.starts_with(kNames[name])) found[name] = text;
  }
  std::vector<std::string> texts;
  for (const std::string& one : found)
    if (!one.empty()) texts.push_back(one);
  return absl::StrJoin(texts, ", ");
}

}  // namespace ncclwatch::analyzer::attach
