#include "analyzer/import/kineto/names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/import/kineto/text.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

using functions::Function;

constexpr std::string_view kDigits = "0123456789";

// The number that `text` begins with, -1: none.
std::int64_t LeadingNumber(std::string_view text) {
  return NumberIn<std::int64_t>(text.substr(0, text.find_first_not_of(kDigits))).value_or(-1);
}

// The number behind the last such word: "rank3", "rank-3", "rank_3".
int NumberBehind(std::string_view word, std::string_view stem) {
  for (std::size_t at = stem.rfind(word); at != std::string_view::npos; at = at == 0 ? at : stem.rfind(word, at - 1)) {
    std::string_view rest = stem.substr(at + word.size());
    if (!rest.empty() && std::string_view("-_.=").find(rest.front()) != std::string_view::npos) rest.remove_prefix(1);
    const std::int64_t number = LeadingNumber(rest);
    if (number >= 0 && number < INT32_MAX) return static_cast<int>(number);
    if (at == 0) break;
  }
  return -1;
}

// torch's own handler names files HOST_PID.TIME.pt.trace.json.
void TakeHost(std::string_view stem, FileName* facts) {
  const std::size_t time = stem.rfind('.');
  if (time != std::string_view::npos && stem.find_first_not_of(kDigits, time + 1) == std::string_view::npos)
    stem = stem.substr(0, time);
  const std::size_t bar = stem.rfind('_');
  if (bar == std::string_view::npos || bar == 0) return;
  const auto pid = NumberIn<std::uint32_t>(stem.substr(bar + 1));
  if (!pid) return;
  facts->host = std::string(stem.substr(0, bar));
  facts->pid = *pid;
}

// "..._RING_LL" has the word RING, also at its end.
bool HasWord(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (at > 0 && text[at - 1] == '_' && (end == text.size() || text[end] == '_')) return true;
  }
  return false;
}

template <typename Value, std::size_t kCount>
Value LongestIn(const std::string_view (&names)[kCount], std::string_view kernel) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < kCount; ++i)
    if (names[i].size() > names[best].size() && HasWord(kernel, names[i])) best = i;
  return static_cast<Value>(best);
}

}  // namespace

FileName FactsIn(const std::string& path) {
  std::string_view stem = std::string_view(path).substr(path.rfind('/') + 1);
  TakeSuffix(&stem, ".gz");
  TakeSuffix(&stem, ".json");
  const bool of_handler = TakeSuffix(&stem, ".pt.trace");
  TakeSuffix(&stem, ".trace");
  FileName facts;
  const std::string lower = Lower(stem);
  for (const std::string_view word : {"rank", "worker", "trace"})
    if ((facts.rank = NumberBehind(word, lower)) >= 0) return facts;
  if (of_handler) TakeHost(stem, &facts);
  return facts;
}

Activity ActivityOf(std::string_view category) {
  // With a capital letter in older traces.
  for (const std::string_view name : {"kernel", "Kernel"})
    if (category == name) return Activity::kKernel;
  for (const std::string_view name : {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"})
    if (category == name) return Activity::kCopy;
  return Activity::kNone;
}

bool IsCommunication(std::string_view kernel) {
  for (const std::string_view library : {"nccl", "rccl", "mscclKernel", "mscclpp"})
    if (kernel.starts_with(library)) return true;
  return kernel.find("oneccl") != std::string_view::npos;
}

Function FunctionOf(std::string_view kernel) {
  static constexpr std::pair<std::string_view, Function> kNames[] = {
      {"AllReduce", Function::ncclAllReduce},
      {"AllGather", Function::ncclAllGather},
      {"ReduceScatter", Function::ncclReduceScatter},
      {"Broadcast", Function::ncclBroadcast},
      {"Reduce", Function::ncclReduce},
  };
  const std::string_view name = ShortName(kernel);
  for (const auto& [word, function] : kNames)
    if (HasWord(name, word)) return function;
  return Function::kNone;
}

format::Algorithm AlgorithmOf(std::string_view kernel) {
  return LongestIn<format::Algorithm>(format::kAlgorithms, ShortName(kernel));
}

format::Protocol ProtocolOf(std::string_view kernel) {
  return LongestIn<format::Protocol>(format::kProtocols, ShortName(kernel));
}

std::string_view ShortName(std::string_view kernel) {
  return IsCommunication(kernel) ? kernel.substr(0, kernel.find('(')) : kernel;
}

std::int64_t StepIn(std::string_view name) { return TakePrefix(&name, "ProfilerStep#") ? LeadingNumber(name) : -1; }

std::string_view BackendIn(std::string_view annotation) {
  const std::size_t colon = annotation.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view backend = annotation.substr(0, colon);
  for (const std::string_view known :
       {"nccl", "ncclx", "nccl-lazy", "rccl", "rcclx", "xccl", "mccl", "hccl", "gloo", "mpi", "ucc"})
    if (backend == known) return known;
  return {};
}

bool IsOnGpu(std::string_view backend) { return backend != "gloo" && backend != "mpi"; }

}  // namespace ncclwatch::analyzer::import::kineto
