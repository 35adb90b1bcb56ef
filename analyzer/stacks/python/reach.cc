#include "analyzer/stacks/python/reach.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

namespace ncclwatch::stacks::python {
namespace {

// torch's groups: object, entry of its table of backends, backend, entry of its table of communicators, communicator;
// that has the handle. One more for wrappers.
constexpr int kMostLevels = 7;
constexpr int kMostLevelsToBackend = 3;  // only so far Python objects are looked up for C++ objects
constexpr std::size_t kMostNodes = 60'000;
constexpr std::uint64_t kMostExtent = 16 << 10;  // bytes of one piece of memory
constexpr std::uint64_t kSomeExtent = 512;       // where its end is not known
constexpr std::uint64_t kLowestPointer = 1 << 16;
constexpr std::size_t kNobody = SIZE_MAX;

struct Extent {
  std::uint64_t begin = 0, end = 0;
  bool known = true;
};

// From these everything can be reached.
bool LeadsEverywhere(std::string_view type) {
  constexpr std::string_view kTypes[] = {"type",   "pybind11_type", "ABCMeta", "module", "function",
                                         "method", "code",          "frame",   "cell",   "builtin_function_or_method"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

class Search {
 public:
  Search(Reader* memory, Objects* objects, const Registered& registered, const std::vector<std::uint64_t>& words)
      : memory_(memory), objects_(objects), registered_(registered), wanted_(words.begin(), words.end()) {}

  absl::flat_hash_map<std::uint64_t, std::size_t> Run(const std::vector<std::uint64_t>& origins);

 private:
  struct Seen {
    std::size_t owner = kNobody;
    int level = 0;
    bool sure = true;  // the pointer lay within what is known to belong to the owner
  };
  using SeenBy = absl::flat_hash_map<std::uint64_t, Seen>;
  struct Words {
    std::vector<std::uint64_t> words;
    bool sure = false;
  };

  // Of what is read the first time, also of words wanted. False: somebody had it before.
  bool Claim(SeenBy* seen, std::uint64_t what, std::size_t owner, bool sure) const;
  std::optional<Extent> PoolBlock(std::uint64_t address) const;
  Extent ExtentOf(std::uint64_t address) const;
  Words WordsOf(std::uint64_t address, bool object) const;
  void Expand(std::uint64_t address, std::size_t owner);
  void Attributes(std::uint64_t object, std::size_t owner, bool of_dict);

  Reader* memory_;
  Objects* objects_;
  const Registered& registered_;
  absl::flat_hash_set<std::uint64_t> wanted_;
  SeenBy nodes_, found_, attributes_;
  std::vector<std::uint64_t> next_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> registered_nodes_;  // with their Python objects
  int level_ = 0;
};

bool Search::Claim(SeenBy* seen, std::uint64_t what, std::size_t owner, bool sure) const {
  const Seen claim{owner, level_, sure};
  const auto [entry, fresh] = seen->try_emplace(what, claim);
  Seen& known = entry->second;
  if (fresh || known.level != level_ || (known.sure && !sure)) return fresh;
  if (!known.sure && sure) known = claim;
  if (known.owner != owner) known.owner = kNobody;
  return false;
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
  return {address, address + kSomeExtent, false};
}

Search::Words Search::WordsOf(std::uint64_t address, bool object) const {
  const Extent extent = ExtentOf(address);
  Words result{std::vector<std::uint64_t>((extent.end - extent.begin) / kWord), extent.known};
  std::vector<std::uint64_t>& words = result.words;
  if (!memory_->Read(extent.begin, words.data(), words.size() * kWord)) return {};
  // Before an object lie the links of all that the garbage collector watches; further before, its own attributes.
  const std::size_t at = (address - extent.begin) / kWord, links = std::min<std::size_t>(at, 2);
  if (object) std::fill_n(words.begin() + static_cast<std::ptrdiff_t>(at - links), links, 0);
  for (std::uint64_t& word : words) word &= ~std::uint64_t{1};  // from 3.12 on it tells attributes from a dict
  return result;
}

// A backend that is written in Python has the handle in a number of ctypes: in the object itself, in the table of its
// attributes, or in that of its dict. Nothing else is followed there, since its threads and stores lead to other
// groups.
void Search::Attributes(std::uint64_t object, std::size_t owner, bool of_dict) {
  const auto number = [&](std::uint64_t at) {
    // What lies behind the number is left from an earlier object, perhaps another group's.
    const auto value = memory_->Value<std::uint64_t>(at + static_cast<std::uint64_t>(objects_->layout()[kObjectBytes]));
    const std::uint64_t word = value ? memory_->Value<std::uint64_t>(*value).value_or(0) : 0;
    if (wanted_.contains(word)) Claim(&attributes_, word, owner, true);
  };
  for (const std::uint64_t at : WordsOf(object, true).words) {
    if (at % kWord != 0 || at < kLowestPointer) continue;
    const std::string type(objects_->TypeOf(at));
    if (type == "c_void_p") number(at);
    if (type == "dict" && !of_dict) Attributes(at, owner, true);
    if (!type.empty()) continue;
    for (const std::uint64_t entry : WordsOf(at, false).words)
      if (entry % kWord == 0 && entry >= kLowestPointer && objects_->IsA(entry, "c_void_p")) number(entry);
  }
}

void Search::Expand(std::uint64_t address, std::size_t owner) {
  const std::string_view type = objects_->TypeOf(address);
  if (LeadsEverywhere(type)) return;
  const auto [words, sure] = WordsOf(address, !type.empty());
  for (const std::uint64_t word : words) {
    if (wanted_.contains(word)) Claim(&found_, word, owner, sure);
    if (word % kWord != 0 || word < kLowestPointer || nodes_.size() >= kMostNodes) continue;
    if (!Claim(&nodes_, word, owner, sure)) continue;
    next_.push_back(word);
    if (const std::uint64_t object = level_ <= kMostLevelsToBackend ? registered_.ObjectFor(word) : 0; object != 0)
      registered_nodes_.emplace_back(word, object);
  }
}

absl::flat_hash_map<std::uint64_t, std::size_t> Search::Run(const std::vector<std::uint64_t>& origins) {
  for (std::size_t i = 0; i < origins.size(); ++i)
    if (Claim(&nodes_, origins[i], i, true)) next_.push_back(origins[i]);
  for (level_ = 1; level_ < kMostLevels && !next_.empty(); ++level_) {
    for (const std::uint64_t address : std::exchange(next_, {}))
      if (const std::size_t owner = nodes_[address].owner; owner != kNobody) Expand(address, owner);
  }
  for (const auto& [address, object] : registered_nodes_)
    if (const std::size_t owner = nodes_[address].owner; owner != kNobody) Attributes(object, owner, false);
  attributes_.insert(found_.begin(), found_.end());
  absl::flat_hash_map<std::uint64_t, std::size_t> owners;
  for (const auto& [word, seen] : attributes_)
    if (seen.owner != kNobody) owners[word] = seen.owner;
  return owners;
}

}  // namespace

absl::flat_hash_map<std::uint64_t, std::size_t> Owners(Reader* memory, Objects* objects, const Registered& registered,
                                                       const std::vector<std::uint64_t>& origins,
                                                       const std::vector<std::uint64_t>& words) {
  return Search(memory, objects, registered, words).Run(origins);
}

}  // namespace ncclwatch::stacks::python
