// Damage to a sample that a process has left. The input is a list of (offset, length, bytes) patches on a sample whose
// thread stands in this program; an odd first byte makes the input the sample itself.
#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "analyzer/stacks/sample.h"
#include "tests/fuzz/input.h"

namespace {

using namespace ncclwatch;
using ncclwatch::fuzz::Patch;

constexpr std::size_t kStack = 512;

void Append(const void* from, std::size_t size, std::vector<std::byte>* bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  bytes->insert(bytes->end(), first, first + size);
}

std::vector<std::byte> MakeSample() {
  std::ifstream file("/proc/self/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  format::SampleHeader header{};
  format::SampledThread thread{};
  std::memcpy(header.magic, format::kSampleMagic, sizeof header.magic);
  header.version = format::kSampleVersion;
#if defined(__x86_64__)
  header.machine = 62;
#else
  header.machine = 183;
#endif
  header.at_real_ns = INT64_MAX;
  header.threads = 1;
  header.maps_offset = sizeof header + sizeof thread + kStack;
  header.maps_bytes = maps.size();
  header.bytes = header.maps_offset + maps.size();
  thread.known = 0xffff;
  thread.pc = reinterpret_cast<std::uint64_t>(&MakeSample) + 1;
  for (std::uint64_t& value : thread.registers) value = 0x7000'0000'0000;
  thread.stack_address = 0x7000'0000'0000;
  thread.stack_offset = sizeof header + sizeof thread;
  thread.stack_bytes = kStack;
  // Return addresses wherever one is looked for.
  std::array<std::uint64_t, kStack / sizeof(std::uint64_t)> stack;
  stack.fill(reinterpret_cast<std::uint64_t>(&Append) + 1);
  std::vector<std::byte> bytes;
  Append(&header, sizeof header, &bytes);
  Append(&thread, sizeof thread, &bytes);
  Append(stack.data(), sizeof stack, &bytes);
  Append(maps.data(), maps.size(), &bytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::byte> whole = MakeSample();
  std::vector<std::byte> bytes = whole;
  if (size > 0 && data[0] % 2 == 1) {
    bytes.clear();
    Append(data + 1, size - 1, &bytes);
  } else if (size > 1) {
    Patch(data + 1, size - 1, 8, &bytes);
  }
  std::string reason;
  if (const auto process = stacks::SampledProcess::Parse(std::move(bytes), &reason)) stacks::ReadSample(process.get());
  return 0;
}
