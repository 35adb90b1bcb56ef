#include "analyzer/report/call_columns.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyzer/jobs/observe.h"
#include "analyzer/trace/facts.h"
#include "analyzer/trace/lines.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

// A text of a call, or of its process: what is longer says no more to a person, and would be repeated with each shape.
constexpr std::size_t kMostText = 1000;

std::string Cut(const std::string& text) { return text.size() > kMostText ? text.substr(0, kMostText) + "..." : text; }

Site CutSite(const reader::BoxImage& box, std::uint64_t address, const std::optional<diagnosis::SourcePlace>& source) {
  Site site{.text = Cut(reader::SiteText(box, address)), .source = source, .line = {}};
  if (site.source)
    for (std::string* text : {&site.source->module, &site.source->file, &site.source->function}) *text = Cut(*text);
  return site;
}

void AppendNumber(std::int64_t value, std::string* bytes) {
  auto left = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  for (; left >= 0x80; left >>= 7) bytes->push_back(static_cast<char>(left | 0x80));
  bytes->push_back(static_cast<char>(left));
}

// What differs wraps around, and so does the reader's sum.
std::int64_t Less(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::uint64_t BytesOf(const reader::Call& call) {
  return functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
}

std::uint64_t FirstSlot(const ProcessRecording& process, std::uint64_t most) {
  return process.end_slot() - std::min(process.end_slot(), most);
}

}  // namespace

CallColumns::CallColumns(const ProcessRecording& process, std::uint64_t most, SiteLines* lines,
                         std::vector<reader::Failure>* failures)
    : process_(process), lines_(lines), from_slot_(FirstSlot(process, most)), until_ns_(UntilNs(process.process())) {
  absl::flat_hash_map<std::string_view, std::uint64_t> named;
  for (const reader::CallSite& site : process.process().call_sites)
    sites_[site.address] = named.try_emplace(site.name, site.address).first->second;
  PieceReader pieces(process);
  pieces.wants = [this](const SegmentIndex& index) { return index.header.end_slot > from_slot_; };
  for (Piece piece; pieces.Next(&piece, failures);) AddPiece(piece);
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const Call& a, const Call& b) { return a.entered_ns < b.entered_ns; });
  for (const SlotRange& lost : process.lost())
    if (lost.begin < from_slot_) left_out_ -= std::min(lost.end, from_slot_) - lost.begin;
  left_out_ += from_slot_;
  columns_ = Encode();
}

void CallColumns::AddPiece(const Piece& piece) {
  const std::int64_t real = piece.realtime_minus_monotonic_ns;
  const reader::Communicator* communicator = nullptr;
  for (const reader::Call& call : piece.calls) {
    if (call.slot < from_slot_) continue;
    if (!communicator || communicator->index != call.communicator || communicator->generation != call.generation)
      communicator = CommunicatorOf(piece, call);
    Call one{};
    one.entered_ns = call.entered_ns + real;
    one.took_ns = call.returned_ns == 0 ? 0 : Less(call.returned_ns, call.entered_ns);
    one.slot = Signed(call.slot);
    one.position = Signed(call.position);
    one.group = call.group == 0 ? 0 : Less(Signed(call.slot), Signed(call.group - 1));
    one.count = Signed(call.count);
    one.bytes = Signed(BytesOf(call));
    one.root = call.root;
    one.kernel_ns = Signed(call.kernel.ns);
    one.shape = ShapeOf(piece, call, communicator);
    calls_.push_back(one);
  }
}

std::uint32_t CallColumns::ShapeOf(const Piece& piece, const reader::Call& call,
                                   const reader::Communicator* communicator) {
  const Standing standing = StandingOf(call, communicator);
  const auto site = sites_.find(call.site);
  const Key key{.function = call.function,
                .communicator = call.communicator,
                .generation = call.generation,
                .thread = call.thread,
                .flags = call.flags,
                .stream = call.stream,
                .site = site == sites_.end() ? call.site : site->second,
                .result = call.result,
                .dtype = call.dtype,
                .reduction = call.reduction,
                .state = Name(standing.state),
                .pending = standing.pending,
                .has_group = call.group != 0,
                .has_root = call.root != format::kNoRank,
                .has_position = call.position != format::kNotMatched,
                .kernel = call.kernel,
                .payload = piece.PayloadOf(call)};
  const auto [known, first] = known_.try_emplace(key, static_cast<std::uint32_t>(shapes_.size()));
  if (!first) return known->second;
  std::string line = LineOf(piece, call, communicator);
  shapes_.push_back({std::move(line), Signed(call.count), Signed(BytesOf(call)), call.root, Signed(call.position)});
  return known->second;
}

// As `trace --json` prints it, with its texts cut.
std::string CallColumns::LineOf(const Piece& piece, const reader::Call& call,
                                const reader::Communicator* communicator) const {
  reader::BoxImage process;
  process.host = Cut(piece.host);
  process.pid = piece.pid;
  process.rank = piece.rank;
  process.realtime_minus_monotonic_ns = piece.realtime_minus_monotonic_ns;
  std::optional<reader::Communicator> on;
  if (communicator) {
    on = *communicator;
    on->label = Cut(on->label);
  }
  std::optional<Site> site;
  const auto places = lines_->PlacesOf(piece);
  const auto place = places.find(call.site);
  if (call.site != 0) site = CutSite(piece, call.site, place == places.end() ? std::nullopt : place->second);
  LineWriter writer(LineForm::kJson);
  ByteBuffer line;
  Facts facts = FactsOf(process, on ? &*on : nullptr, call, until_ns_);
  facts.payload = Cut(piece.PayloadOf(call));
  writer.Append(facts, writer.SiteCells(site ? &*site : nullptr), &line);
  return std::string(line.view().substr(0, line.view().size() - 1));
}

CallColumns::Columns CallColumns::Encode() const {
  Columns columns;
  std::array<bool, kColumns> reported{};
  const auto add = [&](Column column, std::int64_t value) {
    reported[column] |= value != 0;
    AppendNumber(value, &columns[column]);
  };
  std::vector<std::int64_t> next(shapes_.size());  // position that comes next in calls of the shape
  for (std::size_t i = 0; i < shapes_.size(); ++i) next[i] = shapes_[i].position;
  std::int64_t entered_ns = first_ns(), slot = Signed(from_slot_);
  for (const Call& call : calls_) {
    const Shape& shape = shapes_[call.shape];
    add(kEntered, Less(call.entered_ns, entered_ns));
    add(kTook, call.took_ns);
    add(kSlot, Less(call.slot, slot));
    add(kShape, call.shape);
    add(kPosition, Less(call.position, next[call.shape]));
    add(kGroup, call.group);
    add(kCount, Less(call.count, shape.count));
    add(kBytes, Less(call.bytes, shape.bytes));
    add(kRoot, Less(call.root, shape.root));
    add(kKernel, call.kernel_ns);
    entered_ns = call.entered_ns;
    slot = call.slot + 1;
    next[call.shape] = call.position + 1;
  }
  for (std::size_t column = 0; column < columns.size(); ++column)
    if (!reported[column]) columns[column].clear();
  return columns;
}

nlohmann::ordered_json CallColumns::Head() const {
  using Json = nlohmann::ordered_json;
  const reader::BoxImage& box = process_.process();
  Json lengths = Json::array(), shapes = Json::array();
  for (const std::string& column : columns_) lengths.push_back(column.size());
  for (const Shape& shape : shapes_) shapes.push_back(shape.line);
  return {{"rank", process_.rank()},
          {"host", Cut(Printable(box.host))},
          {"pid", box.pid},
          {"first_ns", absl::StrCat(first_ns())},  // no number of JavaScript's holds it
          {"until_ns", absl::StrCat(until_ns_ + box.realtime_minus_monotonic_ns)},
          {"slot", from_slot_},
          {"calls", calls_.size()},
          {"lengths", std::move(lengths)},
          {"shapes", std::move(shapes)}};
}

std::string CallColumns::Bytes() const {
  std::string bytes;
  for (const std::string& column : columns_) bytes += column;
  return bytes;
}

}  // namespace ncclwatch::analyzer
