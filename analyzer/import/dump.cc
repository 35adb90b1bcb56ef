#include "analyzer/import/dump.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <absl/time/time.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "analyzer/import/debug_page.h"
#include "analyzer/import/entries.h"
#include "analyzer/import/json_text.h"
#include "analyzer/import/pickle.h"
#include "core/reader/file.h"
#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import {
namespace {

// A recorder of 2,000 entries with stacks writes 1 MiB.
constexpr std::uint64_t kMostBytes = 256u << 20;
// Every value of an honest dump is looked at once, and takes a byte at least.
constexpr std::uint64_t kLooksPerByte = 4;

// "[0, 1, 5]": text in pickles and in JSON.
std::vector<std::int32_t> RanksOf(std::string_view text) {
  std::vector<std::int32_t> ranks;
  const absl::string_view list(text.data(), text.size());  // another type than std's in some builds of Abseil
  for (const absl::string_view word : absl::StrSplit(list, absl::ByAnyChar("[], "), absl::SkipEmpty())) {
    std::uint32_t rank = 0;
    if (!absl::SimpleAtoi(word, &rank) || rank >= reader::kMaxCommunicatorSize) return {};
    if (ranks.size() == reader::kMaxCommunicatorSize) return {};
    ranks.push_back(static_cast<std::int32_t>(rank));
  }
  return ranks;
}

// Keys and values of a dictionary; nothing of anything else.
template <typename Visit>
void EachPair(const Tree& tree, ValueId dictionary, std::size_t most, Visit visit) {
  if (!tree.Is(dictionary, ValueKind::kDictionary)) return;
  ValueId key = Tree::kNone;
  bool is_key = true;
  tree.Each(dictionary, most, [&](ValueId value) {
    if (is_key)
      key = value;
    else
      visit(key, value);
    is_key = !is_key;
  });
}

void AddGroups(const Tree& tree, ValueId pg_config, std::size_t bytes, Words* words, Entries* entries, Dump* dump) {
  constexpr std::size_t kMostGroups = 1 << 16;
  EachPair(tree, pg_config, 2 * kMostGroups, [&](ValueId name, ValueId config) {
    ValueId description = Tree::kNone;
    std::string_view ranks;
    EachPair(tree, config, 32, [&](ValueId key, ValueId value) {
      if (words->Of(key).key == Key::kDescription) description = value;
      if (words->Of(key).key == Key::kRanks && tree.Is(value, ValueKind::kString)) ranks = tree.text(value);
    });
    if (words->Of(name).text.empty()) return;  // some versions of gloo's own write one without a name for all
    const std::uint32_t group = entries->Group(name, description);
    if (!dump->groups[group].ranks.empty() || ranks.size() > bytes) return;
    bytes -= ranks.size();  // one long text may be that of any number of groups
    dump->groups[group].ranks = RanksOf(ranks);
  });
}

// How far the process has come in each group, by the numbers that its backends have in it. Entries tell which group a
// number is. Of a process with none under way numbers rise with the order in which the groups were made, as their names
// do: if there are as many of both, and no entry says otherwise, they go together.
void AddStatus(const Tree& tree, ValueId pg_status, Words* words, const Entries& entries, Dump* dump) {
  constexpr std::size_t kMostGroups = 1 << 16;
  std::map<std::int64_t, std::uint64_t> enqueued;
  EachPair(tree, pg_status, 2 * kMostGroups, [&](ValueId number, ValueId status) {
    std::int64_t id = -1;
    if (!absl::SimpleAtoi(absl::string_view(words->Of(number).text.data(), words->Of(number).text.size()), &id)) return;
    EachPair(tree, status, 32, [&](ValueId key, ValueId value) {
      if (words->Of(key).key != Key::kLastEnqueued || !tree.Is(value, ValueKind::kInteger)) return;
      enqueued[id] = static_cast<std::uint64_t>(std::max<std::int64_t>(tree.integer(value), 0));
    });
  });
  std::map<std::int64_t, std::uint32_t> by_name;
  for (std::uint32_t group = 0; group < dump->groups.size(); ++group) {
    std::int64_t name = -1;
    if (!absl::SimpleAtoi(dump->groups[group].name, &name)) return by_name.clear();
    by_name[name] = group;
  }
  const absl::flat_hash_map<std::int64_t, std::uint32_t>& known = entries.group_of_pg_id();
  std::map<std::int64_t, std::uint32_t> group_of(known.begin(), known.end());
  if (by_name.size() == enqueued.size() && by_name.size() == dump->groups.size()) {
    auto named = by_name.begin();
    bool agrees = true;
    std::map<std::int64_t, std::uint32_t> together;
    for (const auto& [id, count] : enqueued) {
      together[id] = named->second;
      const auto entry = known.find(id);
      agrees &= entry == known.end() || entry->second == named->second;
      ++named;
    }
    if (agrees) group_of = std::move(together);
  }
  for (const auto& [id, group] : group_of)
    if (const auto count = enqueued.find(id); count != enqueued.end()) dump->groups[group].enqueued = count->second;
}

absl::StatusOr<Dump> TakeApart(const Tree& tree, ValueId root, std::size_t bytes) {
  if (!tree.Is(root, ValueKind::kDictionary))
    return absl::InvalidArgumentError("no dump of a flight recorder: not a dictionary");
  Dump dump;
  Words words(tree);
  ValueId entries = Tree::kNone, pg_config = Tree::kNone, pg_status = Tree::kNone;
  EachPair(tree, root, 256, [&](ValueId key, ValueId value) {
    switch (words.Of(key).key) {
      case Key::kVersion: dump.version = words.Of(value).text; break;
      case Key::kEntries: entries = value; break;
      case Key::kPgConfig: pg_config = value; break;
      case Key::kPgStatus: pg_status = value; break;
      case Key::kRank:
        if (tree.Is(value, ValueKind::kInteger) && tree.integer(value) >= 0)
          dump.rank = static_cast<std::int32_t>(std::min<std::int64_t>(tree.integer(value), INT32_MAX));
        break;
      default: break;
    }
  });
  if (dump.version.empty()) return absl::InvalidArgumentError("no dump of a flight recorder: it names no version");
  if (!dump.version.starts_with("2."))
    return absl::UnimplementedError(fmt::format("version {} of the flight recorder is not known here", dump.version));
  Entries all(tree, &words, kLooksPerByte * bytes + 1024, &dump);
  AddGroups(tree, pg_config, bytes, &words, &all, &dump);
  bool within = true;
  if (tree.Is(entries, ValueKind::kList)) all.Reserve(tree.Count(entries));
  if (tree.Is(entries, ValueKind::kList))
    tree.Each(entries, SIZE_MAX, [&](ValueId entry) { within = within && all.Add(entry); });
  if (!within) return absl::ResourceExhaustedError("it refers to the same values more often than a dump does");
  all.Finish();
  AddStatus(tree, pg_status, &words, all, &dump);
  // Its recorder has seen calls, and none of them is here.
  if (dump.box.calls.empty())
    dump.missing_records = std::any_of(dump.groups.begin(), dump.groups.end(),
                                       [](const ProcessGroup& group) { return group.enqueued.value_or(0) > 0; });
  return dump;
}

}  // namespace

std::int32_t RankInName(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const char* ending : {".json", ".pickle", ".pkl"}) name = std::string(absl::StripSuffix(name, ending));
  std::size_t begin = name.find_last_not_of("0123456789") + 1;
  if (const std::size_t rank = absl::AsciiStrToLower(name).rfind("rank"); rank != std::string::npos) {
    const std::size_t digits = name.find_first_not_of("_-.", rank + 4);
    if (digits != std::string::npos && absl::ascii_isdigit(static_cast<unsigned char>(name[digits]))) begin = digits;
  }
  std::int32_t rank = -1;
  const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + name.size(), rank);
  return error == std::errc() ? rank : -1;
}

absl::StatusOr<Dump> ParseDump(std::string_view bytes, Tree* tree) {
  tree->Clear();
  absl::StatusOr<ValueId> root = absl::InvalidArgumentError("neither a pickle nor JSON");
  if (LooksLikePickle(bytes))
    root = ParsePickle(bytes, tree);
  else if (LooksLikeJsonObject(bytes))
    root = ParseJson(bytes, tree);
  if (!root.ok()) return root.status();
  return TakeApart(*tree, *root, bytes.size());
}

std::vector<absl::StatusOr<Dump>> DumpReader::Parse(const std::string& path) {
  std::vector<absl::StatusOr<Dump>> dumps;
  if (!LooksLikePage(bytes_)) {
    dumps.push_back(ParseDump(bytes_, &tree_));
    if (dumps[0].ok() && dumps[0]->rank < 0) dumps[0]->rank = RankInName(path);
    if (dumps[0].ok() && dumps[0]->rank < 0)
      dumps[0] = absl::NotFoundError("neither the dump nor the file's name tells the rank");
    return dumps;
  }
  for (const DumpInPage& one : DumpsInPage(bytes_)) {
    dumps.push_back(ParseDump(one.text, &tree_));
    if (dumps.back().ok())
      dumps.back()->rank = one.rank;
    else
      dumps.back() =
          absl::DataLossError(fmt::format("rank {}: {}", one.rank, std::string(dumps.back().status().message())));
  }
  if (dumps.empty()) dumps.push_back(absl::NotFoundError("no page of torch's debug server with dumps in it"));
  return dumps;
}

std::vector<absl::StatusOr<Dump>> DumpReader::Read(const std::string& path) {
  const reader::File file(path);
  if (!file.reason().empty()) return {absl::UnavailableError(file.reason())};
  if (file.bytes() > kMostBytes) return {absl::OutOfRangeError("too large for a dump of a flight recorder")};
  bytes_.resize(file.bytes());
  bytes_.resize(file.ReadAt(0, bytes_.data(), bytes_.size()));
  std::vector<absl::StatusOr<Dump>> dumps = Parse(path);
  struct stat status {};
  const bool timed = fstat(file.descriptor(), &status) == 0;
  for (absl::StatusOr<Dump>& dump : dumps) {
    if (!dump.ok()) continue;
    if (timed) dump->written_ns = absl::ToUnixNanos(absl::TimeFromTimespec(status.st_mtim));
    dump->path = dump->box.path = path;
  }
  return dumps;
}

}  // namespace ncclwatch::analyzer::import
