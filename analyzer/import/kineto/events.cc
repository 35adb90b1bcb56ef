#include "analyzer/import/kineto/events.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "analyzer/import/base/text_file.h"
#include "analyzer/import/kineto/text.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

constexpr std::size_t kMostText = 512;  // of a name: an input may use one long string any number of times
constexpr std::size_t kMostRanksText = 1 << 16;
constexpr std::size_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostNs = std::int64_t{1} << 61;     // two of them are added up
constexpr std::int64_t kLongestNs = std::int64_t{1} << 53;  // a hundred days
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 60;

enum class Key : std::uint8_t {
  kOther,
  kTraceEvents,
  kBase,
  kHost,
  kDistributedInfo,
  kRank,
  kWorldSize,
  kGroups,
  kGroupName,
  kGroupDescription,
  kGroupSize,
  kGroupRanks,
  kName,
  kCategory,
  kPhase,
  kBegan,
  kDuration,
  kProcess,
  kThread,
  kArguments,
  kCorrelation,
  kExternal,
  kDevice,
  kStream,
  kBytes,
  kGrid,
  kInputDims,
  kInputType,
  kCollective,
  kDtype,
  kInElements,
  kOutElements,
  kRankStart,
  kRankStride,
  kSequence,
  kSource,
  kDestination,
};

Key KeyNamed(std::string_view text) {
  static const absl::flat_hash_map<std::string_view, Key, std::hash<std::string_view>> keys = {
      {"traceEvents", Key::kTraceEvents},
      {"baseTimeNanoseconds", Key::kBase},
      {"host_name", Key::kHost},
      {"hostname", Key::kHost},
      {"distributedInfo", Key::kDistributedInfo},
      {"rank", Key::kRank},
      {"world_size", Key::kWorldSize},
      {"pg_config", Key::kGroups},
      {"pg_name", Key::kGroupName},
      {"pg_desc", Key::kGroupDescription},
      {"pg_size", Key::kGroupSize},
      {"ranks", Key::kGroupRanks},
      {"name", Key::kName},
      {"cat", Key::kCategory},
      {"ph", Key::kPhase},
      {"ts", Key::kBegan},
      {"dur", Key::kDuration},
      {"pid", Key::kProcess},
      {"tid", Key::kThread},
      {"args", Key::kArguments},
      {"correlation", Key::kCorrelation},
      {"External id", Key::kExternal},
      {"external id", Key::kExternal},
      {"device", Key::kDevice},
      {"stream", Key::kStream},
      {"bytes", Key::kBytes},
      {"grid", Key::kGrid},
      {"Input Dims", Key::kInputDims},
      {"Input dims", Key::kInputDims},
      {"Input type", Key::kInputType},
      {"Collective name", Key::kCollective},
      {"dtype", Key::kDtype},
      {"In msg nelems", Key::kInElements},
      {"In msg size", Key::kInElements},
      {"Out msg nelems", Key::kOutElements},
      {"Out msg size", Key::kOutElements},
      {"Group size", Key::kGroupSize},
      {"Process Group Name", Key::kGroupName},
      {"Process Group ID", Key::kGroupName},
      {"Process Group Description", Key::kGroupDescription},
      {"Process Group Ranks", Key::kGroupRanks},
      {"Global rank start", Key::kRankStart},
      {"Global rank stride", Key::kRankStride},
      {"Seq", Key::kSequence},
      {"Src Rank", Key::kSource},
      {"Dst Rank", Key::kDestination},
  };
  const auto found = keys.find(text);
  return found == keys.end() ? Key::kOther : found->second;
}

std::int64_t IntegerIn(std::string_view text) {
  if (const auto value = NumberIn<std::int64_t>(text)) return *value;
  const auto number = NumberIn<double>(text);
  return number && std::abs(*number) < 9e18 ? static_cast<std::int64_t>(*number) : -1;
}

// Of a number of microseconds. Not by way of a double, which holds 2026 in steps of a quarter of a microsecond.
std::int64_t NanosecondsIn(std::string_view text) {
  constexpr std::int64_t kMostUs = kMostNs / 1000;
  const bool negative = TakePrefix(&text, "-");
  std::int64_t us = 0;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, us);
  std::int64_t ns = 0;
  if (error == std::errc() && us >= 0 && us <= kMostUs && (dot == end || *dot == '.')) {
    ns = us * 1000;
    std::int64_t unit = 100;
    for (const char* digit = dot + (dot == end ? 0 : 1); digit < end; ++digit, unit /= 10) {
      if (*digit < '0' || *digit > '9') return 0;
      if (unit > 0) ns += (*digit - '0') * unit;
      if (unit == 0) {
        ns += *digit >= '5' ? 1 : 0;
        break;
      }
    }
  } else if (const auto value = NumberIn<double>(text); value && !std::isnan(*value)) {
    ns = static_cast<std::int64_t>(std::clamp(*value * 1e3, 0.0, static_cast<double>(kMostNs)));
  }
  return negative ? -ns : ns;
}

std::uint64_t NumberOf(std::string_view name) {
  std::uint64_t hash = name.size();
  for (const char letter : name) hash = format::Mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

void Assign(std::string* to, std::string_view text) { to->assign(text.substr(0, kMostText)); }

// What a text is made of, as RapidJSON tells it. True: go on.
class Handler {
 public:
  Handler(TraceHeader* header, absl::FunctionRef<void(const Event&)> take) : header_(*header), take_(take) {}

  bool Null() { return true; }
  bool Bool(bool /*value*/) { return true; }
  bool Int(int /*value*/) { return false; }  // numbers come as texts
  bool Uint(unsigned /*value*/) { return false; }
  bool Int64(std::int64_t /*value*/) { return false; }
  bool Uint64(std::uint64_t /*value*/) { return false; }
  bool Double(double /*value*/) { return true; }  // infinity, and what is no number
  bool RawNumber(const char* data, rapidjson::SizeType size, bool /*copy*/) {
    if (ignored_ == 0) TakeNumber(std::string_view(data, size));
    return true;
  }
  bool String(const char* data, rapidjson::SizeType size, bool /*copy*/) {
    if (ignored_ == 0) TakeText(std::string_view(data, size));
    return true;
  }
  bool Key(const char* data, rapidjson::SizeType size, bool /*copy*/) {
    if (ignored_ == 0) key_ = KeyNamed(std::string_view(data, size));
    return true;
  }
  bool StartObject() {
    Enter(ObjectIn());
    return true;
  }
  bool StartArray() {
    Enter(ListIn());
    return true;
  }
  bool EndObject(rapidjson::SizeType /*members*/) {
    if (Leave() == Place::kEvent) take_(event_);
    return true;
  }
  bool EndArray(rapidjson::SizeType /*elements*/) {
    if (Leave() == Place::kExtents) event_.input_elements = std::min(event_.input_elements + product_, kMostElements);
    return true;
  }

 private:
  enum class Place : std::uint8_t {
    kNowhere,
    kIgnored,
    kTrace,
    kEvents,
    kEvent,
    kArguments,
    kList,     // of an argument
    kExtents,  // of one of the inputs in such a list
    kDistributedInfo,
    kGroups,
    kGroup,
    kGroupRanks,
  };

  Place ObjectIn() {
    switch (place_) {
      case Place::kNowhere: return Place::kTrace;
      case Place::kTrace: return key_ == Key::kDistributedInfo ? Place::kDistributedInfo : Place::kIgnored;
      case Place::kEvents: event_.Clear(); return Place::kEvent;
      case Place::kEvent: return key_ == Key::kArguments ? Place::kArguments : Place::kIgnored;
      case Place::kGroups: header_.groups.emplace_back(); return Place::kGroup;
      default: return Place::kIgnored;
    }
  }
  Place ListIn() {
    switch (place_) {
      case Place::kNowhere: return Place::kEvents;
      case Place::kTrace: return key_ == Key::kTraceEvents ? Place::kEvents : Place::kIgnored;
      case Place::kArguments: return Place::kList;
      case Place::kList: product_ = 1; return key_ == Key::kInputDims ? Place::kExtents : Place::kIgnored;
      case Place::kDistributedInfo: return key_ == Key::kGroups ? Place::kGroups : Place::kIgnored;
      case Place::kGroup: return key_ == Key::kGroupRanks ? Place::kGroupRanks : Place::kIgnored;
      default: return Place::kIgnored;
    }
  }
  void Enter(Place place) {
    if (ignored_ > 0 || place == Place::kIgnored) {
      ++ignored_;
      return;
    }
    outer_.push_back(place_);
    place_ = place;
  }
  // The place that is left.
  Place Leave() {
    if (ignored_ > 0) {
      --ignored_;
      return Place::kIgnored;
    }
    const Place left = place_;
    place_ = outer_.back();
    outer_.pop_back();
    return left;
  }

  void TakeNumber(std::string_view text) {
    switch (place_) {
      case Place::kTrace:
        if (key_ == Key::kBase) header_.base_ns = std::clamp<std::int64_t>(IntegerIn(text), 0, kMostNs);
        break;
      case Place::kDistributedInfo: TakeOfJob(text); break;
      case Place::kGroup:
        if (key_ == Key::kGroupSize) header_.groups.back().size = IntegerIn(text);
        break;
      case Place::kGroupRanks: AddRank(IntegerIn(text)); break;
      case Place::kEvent: TakeOfEvent(text, true); break;
      case Place::kArguments: TakeNumberOfArguments(text); break;
      case Place::kList: TakeNumberOfList(text); break;
      case Place::kExtents: Multiply(IntegerIn(text)); break;
      default: break;
    }
  }
  void TakeText(std::string_view text) {
    switch (place_) {
      case Place::kTrace:
        if (key_ == Key::kHost) Assign(&header_.host, text);
        if (key_ == Key::kBase) header_.base_ns = std::clamp<std::int64_t>(IntegerIn(text), 0, kMostNs);
        break;
      case Place::kDistributedInfo: TakeOfJob(text); break;
      case Place::kGroup: TakeTextOfGroup(text); break;
      case Place::kEvent: TakeOfEvent(text, false); break;
      case Place::kArguments: TakeTextOfArguments(text); break;
      case Place::kList:
        if (key_ == Key::kInputType && event_.input_type.empty()) Assign(&event_.input_type, text);
        break;
      default: break;
    }
  }
  void TakeOfJob(std::string_view number) {
    if (key_ == Key::kRank) header_.rank = IntegerIn(number);
    if (key_ == Key::kWorldSize) header_.world_size = IntegerIn(number);
  }
  void TakeTextOfGroup(std::string_view text) {
    GroupConfig& group = header_.groups.back();
    if (key_ == Key::kGroupName) Assign(&group.name, text);
    if (key_ == Key::kGroupDescription) Assign(&group.description, text);
    if (key_ == Key::kGroupRanks) group.ranks = RanksIn(text);
  }
  void AddRank(std::int64_t rank) {
    std::vector<int>& ranks = header_.groups.back().ranks;
    if (rank >= 0 && rank <= INT32_MAX && ranks.size() < kMostRanks) ranks.push_back(static_cast<int>(rank));
  }
  void TakeOfEvent(std::string_view text, bool number) {
    switch (key_) {
      case Key::kName: Assign(&event_.name, text); break;
      case Key::kCategory: Assign(&event_.category, text); break;
      case Key::kBegan: event_.began_ns = NanosecondsIn(text); break;
      case Key::kDuration:
        event_.duration_ns = std::clamp<std::int64_t>(NanosecondsIn(text), 0, kLongestNs);
        event_.timed = true;
        break;
      case Key::kProcess: event_.process = number ? static_cast<std::uint64_t>(IntegerIn(text)) : NumberOf(text); break;
      case Key::kThread: event_.thread = number ? static_cast<std::uint64_t>(IntegerIn(text)) : NumberOf(text); break;
      default: break;
    }
  }
  std::int64_t* NumberOfArguments() {
    switch (key_) {
      case Key::kCorrelation: return &event_.correlation;
      case Key::kExternal: return &event_.external;
      case Key::kDevice: return &event_.device;
      case Key::kStream: return &event_.stream;
      case Key::kBytes: return &event_.bytes;
      case Key::kInElements: return &event_.in_elements;
      case Key::kOutElements: return &event_.out_elements;
      case Key::kGroupSize: return &event_.group_size;
      case Key::kRankStart: return &event_.rank_start;
      case Key::kRankStride: return &event_.rank_stride;
      case Key::kSequence: return &event_.sequence;
      case Key::kSource: return &event_.source;
      case Key::kDestination: return &event_.destination;
      default: return nullptr;
    }
  }
  void TakeNumberOfArguments(std::string_view text) {
    if (std::int64_t* const number = NumberOfArguments()) *number = IntegerIn(text);
    if (key_ == Key::kGroupName) Assign(&event_.group, text);  // its number, in older traces
  }
  void TakeTextOfArguments(std::string_view text) {
    switch (key_) {
      case Key::kCollective: Assign(&event_.collective, text); break;
      case Key::kDtype: Assign(&event_.dtype, text); break;
      case Key::kGroupName: Assign(&event_.group, text); break;
      case Key::kGroupDescription: Assign(&event_.description, text); break;
      case Key::kGroupRanks: event_.ranks.assign(text.substr(0, kMostRanksText)); break;
      default:
        if (std::int64_t* const number = NumberOfArguments()) *number = IntegerIn(text);
        break;
    }
  }
  void TakeNumberOfList(std::string_view text) {
    if (key_ == Key::kGrid && event_.grid.size() < kMostText)
      event_.grid.append(event_.grid.empty() ? "" : "x").append(text.substr(0, kMostText));
    if (key_ == Key::kGroupRanks && event_.ranks.size() < kMostRanksText)
      event_.ranks.append(event_.ranks.empty() ? "" : ", ").append(text.substr(0, kMostText));
  }
  void Multiply(std::int64_t extent) {
    if (__builtin_mul_overflow(product_, static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 0)), &product_))
      product_ = kMostElements;
    product_ = std::min(product_, kMostElements);
  }

  TraceHeader& header_;
  absl::FunctionRef<void(const Event&)> take_;
  Event event_;
  Place place_ = Place::kNowhere;
  std::vector<Place> outer_;
  std::uint64_t ignored_ = 0;  // how deep in what is not looked at
  kineto::Key key_ = kineto::Key::kOther;
  std::uint64_t product_ = 1;
};

// A file's pieces as RapidJSON reads them.
class Pieces {
 public:
  using Ch = char;
  explicit Pieces(TextFile* file) : file_(file) { Turn(); }
  explicit Pieces(std::string_view text) : next_(text.data()), end_(text.data() + text.size()), begin_(next_) {}

  char Peek() const { return next_ == end_ ? '\0' : *next_; }
  char Take() {
    if (next_ == end_) return '\0';
    const char letter = *next_++;
    if (next_ == end_) Turn();
    return letter;
  }
  std::size_t Tell() const { return offset_ + static_cast<std::size_t>(next_ - begin_); }
  bool AtEnd() const { return next_ == end_; }
  const absl::Status& status() const { return status_; }

  // Of streams that are written.
  char* PutBegin() { return nullptr; }
  void Put(char /*letter*/) {}
  void Flush() {}
  std::size_t PutEnd(char* /*begin*/) { return 0; }

 private:
  void Turn() {
    if (file_ == nullptr) return;
    const auto piece = file_->Next();
    if (!piece.ok()) {
      offset_ += static_cast<std::size_t>(end_ - begin_);
      next_ = end_ = begin_ = nullptr;
      status_ = piece.status();
      return;
    }
    offset_ = file_->offset();
    begin_ = next_ = piece->data();
    end_ = begin_ + piece->size();
  }

  TextFile* file_ = nullptr;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  const char* begin_ = nullptr;
  std::size_t offset_ = 0;
  absl::Status status_;
};

absl::Status Parse(Pieces* pieces, TraceHeader* header, absl::FunctionRef<void(const Event&)> take) {
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag |
                              rapidjson::kParseIterativeFlag;  // nesting must not take the stack
  Handler handler(header, take);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(*pieces, handler);
  if (!pieces->status().ok()) return pieces->status();
  if (!result.IsError()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("at byte {}: {}", result.Offset(),
                  pieces->AtEnd() ? "it ends in the middle of the trace" : rapidjson::GetParseError_En(result.Code())));
}

}  // namespace

void Event::Clear() {
  for (std::string* text : {&name, &category, &grid, &input_type, &collective, &dtype, &group, &description, &ranks})
    text->clear();
  for (std::int64_t* number : {&correlation, &external, &device, &stream, &bytes, &in_elements, &out_elements,
                               &group_size, &rank_start, &rank_stride, &sequence, &source, &destination})
    *number = -1;
  began_ns = duration_ns = 0;
  process = thread = input_elements = 0;
  timed = false;
}

absl::Status ReadEvents(const std::string& path, TraceHeader* header, absl::FunctionRef<void(const Event&)> take) {
  auto file = TextFile::Open(path);
  if (!file.ok()) return file.status();
  Pieces pieces(&*file);
  return Parse(&pieces, header, take);
}

absl::Status ParseEvents(std::string_view text, TraceHeader* header, absl::FunctionRef<void(const Event&)> take) {
  Pieces pieces(text);
  return Parse(&pieces, header, take);
}

std::vector<int> RanksIn(std::string_view text) {
  std::vector<int> ranks;
  TakePrefix(&text, "[");
  TakeSuffix(&text, "]");
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (TakePrefix(&word, " ")) continue;
    const auto rank = NumberIn<int>(word);
    if (!rank || *rank < 0) return {};
    ranks.push_back(*rank);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranks;
}

}  // namespace ncclwatch::analyzer::import::kineto
