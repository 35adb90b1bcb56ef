#include "analyzer/stacks/python/reach.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace ncclwatch::stacks::python {
namespace {

// torch's groups: object, entry of its table of backends, backend, entry of its table of communicators, communicator;
// that has the handle. One more for wrappers.
constexpr int kMostLevels = 7;
constexpr std::size_t kMostNodes = 60'000;
constexpr std::uint64_t kMostExtent = 16 << 10;  // bytes of one piece of memory
constexpr std::uint64_t kSomeExtent = 512;       // where its end is not known
constexpr std::uint64_t kLowestPointer = 1 << 16;
constexpr std::size_t kNobody = SIZE_MAX;

struct Extent {
  std::uint64_t begin = 0, end = 0;
};

// From these everything can be reached.
bool LeadsEverywhere(std::string_view type) {
  constexpr std::string_view kTypes[] = {"type",   "pybind11_type", "ABCMeta", "module", "function",
                                         "method", "code",          "frame",   "cell",   "builtin_function_or_method"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

class Search {
 public:
  Search(Reader* memory, Objects* objects, const std::vector<std::uint64_t>& words)
      : memory_(memory), objects_(objects), wanted_(words.begin(), words.end()) {}

  absl::flat_hash_map<std::uint64_t, std::size_t> Run(const std::vector<std::uint64_t>& origins);

 private:
  struct Node {
    std::uint64_t address = 0;
    std::size_t owner = kNobody;
  };
  struct Seen {
    std::size_t owner = kNobody;
    int level = 0;
  };

  // Of what is read the first time, also of words wanted. False: somebody had it before.
  bool Claim(absl::flat_hash_map<std::uint64_t, Seen>* seen, std::uint64_t what, std::size_t owner) const;
  std::optional<Extent> PoolBlock(std::uint64_t address) const;
  Extent ExtentOf(std::uint64_t address) const;
  void Expand(const Node& node);

  Reader* memory_;
  Objects* objects_;
  absl::flat_hash_set<std::uint64_t> wanted_;
  absl::flat_hash_map<std::uint64_t, Seen> nodes_, found_;
  std::vector<Node> next_;
  int level_ = 0;
};

bool Search::Claim(absl::flat_hash_map<std::uint64_t, Seen>* seen, std::uint64_t what, std::size_t owner) const {
  const auto [known, fresh] = seen->try_emplace(what, Seen{owner, level_});
  if (!fresh && known->second.level == level_ && known->second.owner != owner) known->second.owner = kNobody;
  return fresh;
}

// Python's own allocator for what is small: pools of blocks of one size, each with a header that says it.
std::optional<Extent> Search::PoolBlock(std::uint64_t address) const {
  struct Header {
    std::uint64_t count, free, next, previous;
    std::uint32_t arena, size_index, next_offset, most_offset;
  };
  static_assert(sizeof(Header) == 48);
  constexpr std::uint32_t kUnit = 16, kMostIndex = 32;
  const std::uint64_t pool_bytes = objects_->layout().minor == 9 ? 4096 : 16384;
  const std::uint64_t pool = address - address % pool_bytes;
  const auto header = memory_->Value<Header>(pool);
  if (!header || header->size_index >= kMostIndex || address < pool + sizeof(Header)) return std::nullopt;
  const std::uint64_t bytes = std::uint64_t{header->size_index + 1} * kUnit;
  if (header->most_offset != pool_bytes - bytes) return std::nullopt;
  const std::uint64_t begin = address - (address - pool - sizeof(Header)) % bytes;
  return Extent{begin, begin + bytes};
}

// The piece of memory that was allocated for what lies there: as Python's pools or glibc's header before it tell.
Extent Search::ExtentOf(std::uint64_t address) const {
  if (const auto block = PoolBlock(address)) return *block;
  constexpr std::uint64_t kLeastChunk = 32, kNotOfSize = 8, kFlags = 7;
  const std::uint64_t chunk = memory_->Value<std::uint64_t>(address - kWord).value_or(0);
  const std::uint64_t bytes = chunk & ~kFlags;
  if ((chunk & kNotOfSize) == 0 && bytes >= kLeastChunk && bytes <= kMostExtent)
    return {address, address + bytes - kWord};
  return {address, address + kSomeExtent};
}

void Search::Expand(const Node& node) {
  const std::string_view type = objects_->TypeOf(node.address);
  if (LeadsEverywhere(type)) return;
  const Extent extent = ExtentOf(node.address);
  std::vector<std::uint64_t> words((extent.end - extent.begin) / kWord);
  if (!memory_->Read(extent.begin, words.data(), words.size() * kWord)) return;
  const std::size_t object = (node.address - extent.begin) / kWord;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // Before an object lie the links of all that the garbage collector watches; further before, its own attributes.
    if (!type.empty() && i < object && i + 2 >= object) continue;
    if (wanted_.contains(words[i])) Claim(&found_, words[i], node.owner);
    const std::uint64_t address = words[i] & ~std::uint64_t{1};  // from 3.12 on it tells attributes from a dict
    if (address % kWord != 0 || address < kLowestPointer || nodes_.size() >= kMostNodes) continue;
    if (Claim(&nodes_, address, node.owner)) next_.push_back({address, node.owner});
  }
}

absl::flat_hash_map<std::uint64_t, std::size_t> Search::Run(const std::vector<std::uint64_t>& origins) {
  for (std::size_t i = 0; i < origins.size(); ++i)
    if (Claim(&nodes_, origins[i], i)) next_.push_back({origins[i], i});
  for (level_ = 1; level_ < kMostLevels && !next_.empty(); ++level_) {
    for (const Node& node : std::exchange(next_, {}))
      if (nodes_[node.address].owner != kNobody) Expand(node);
  }
  absl::flat_hash_map<std::uint64_t, std::size_t> owners;
  for (const auto& [word, seen] : found_)
    if (seen.owner != kNobody) owners[word] = seen.owner;
  return owners;
}

}  // namespace

absl::flat_hash_map<std::uint64_t, std::size_t> Owners(Reader* memory, Objects* objects,
                                                       const std::vector<std::uint64_t>& origins,
                                                       const std::vector<std::uint64_t>& words) {
  return Search(memory, objects, words).Run(origins);
}

}  // namespace ncclwatch::stacks::python
