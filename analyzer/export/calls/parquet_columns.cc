#include "analyzer/export/calls/parquet_columns.h"

#include <fmt/format.h>

#include <utility>

#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::exporting {
namespace {

// In the order of the files; a dot stands for a struct.
enum Column : std::size_t {
  kTime,
  kTimeNs,
  kRank,
  kSeq,
  kEntered,
  kReturned,
  kStarted,
  kFinished,
  kHost,
  kPid,
  kThread,
  kSlot,
  kCommunicator,
  kCommunicatorRank,
  kLabel,
  kPosition,
  kOp,
  kCount,
  kBytes,
  kDtype,
  kReduction,
  kRoot,
  kPeer,
  kStream,
  kGroup,
  kState,
  kPending,
  kDuration,
  kKernelDuration,
  kKernelClock,
  kKernelAlgorithm,
  kKernelProtocol,
  kKernelChannels,
  kResult,
  kSiteFile,
  kSiteLine,
  kSiteFunction,
  kSiteModule,
  kSiteOffset,
  kSiteOnMainThread,
  kSiteText,
  kFlags,
  kLibrary,
  kCommunicatorSize,
  kCommunicatorFlags,
  kTag,
  kCompletedNs,
  kWaiter,
  kSignature,
  kPayload,
  kColumns,
};
// Spark has no unsigned numbers and takes times of microseconds: neither is used.
struct Description {
  const char* name;
  const char* type;
};
constexpr Description kDescriptions[] = {
    {"time", "micros"},
    {"time_ns", "int64"},
    {"rank", "int32"},
    {"seq", "int64"},
    {"entered", "micros"},
    {"returned", "micros"},
    {"started", "micros"},
    {"finished", "micros"},
    {"host", "text"},
    {"pid", "int64"},
    {"thread", "int64"},
    {"slot", "int64"},
    {"communicator", "text"},
    {"communicator_rank", "int32"},
    {"label", "text"},
    {"position", "int64"},
    {"op", "text"},
    {"count", "int64"},
    {"bytes", "int64"},
    {"dtype", "text"},
    {"reduction", "text"},
    {"root", "int32"},
    {"peer", "int32"},
    {"stream", "text"},
    {"group", "int64"},
    {"state", "text"},
    {"pending", "bool"},
    {"duration_s", "double"},
    {"kernel.duration_s", "double"},
    {"kernel.clock", "text"},
    {"kernel.algorithm", "text"},
    {"kernel.protocol", "text"},
    {"kernel.channels", "int32"},
    {"result", "text"},
    {"site.file", "text"},
    {"site.line", "int32"},
    {"site.function", "text"},
    {"site.module", "text"},
    {"site.offset", "int64"},
    {"site.on_main_thread", "bool"},
    {"site_text", "text"},
    {"flags", "texts"},
    {"library", "text"},
    {"communicator_size", "int64"},
    {"communicator_flags", "texts"},
    {"tag", "int32"},
    {"completed_ns", "int64"},
    {"waiter", "int64"},
    {"signature", "int64"},
    {"payload", "text"},
};
static_assert(std::size(kDescriptions) == kColumns);

constexpr std::size_t kAligned = 64;  // as Arrow wants its buffers; parquet_writer.py knows it

std::optional<std::int64_t> Signed(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

}  // namespace

void ColumnBuffer::Clear() {
  values_.Clear();
  validity_.Clear();
  rows_ = nulls_ = 0;
}

void ColumnBuffer::SetBitsBefore() {
  for (std::size_t i = 0; i < rows_ / 8; ++i) validity_.Put('\xff');
  if (rows_ % 8 != 0) validity_.Put(static_cast<char>((1u << rows_ % 8) - 1));
}

void ColumnBuffer::WriteNulls(std::size_t value_bytes) {
  validity_.Resize((rows_ + 7) / 8);
  values_.Resize(rows_ * value_bytes);
}

std::vector<std::string> Texts::TakeNew() { return std::exchange(new_, {}); }

// Several keys may stand for one text.
std::int32_t Texts::Learn(std::uint64_t key, const std::string& text) {
  std::int32_t number = kNull;
  if (!text.empty()) {
    const auto [found, made] = by_text_.try_emplace(text, static_cast<std::int32_t>(by_text_.size()));
    number = found->second;
    if (made) new_.push_back(text);
  }
  by_key_[key] = number;
  return number;
}

nlohmann::ordered_json ParquetColumns::Schema() {
  static_assert(kColumns <= kMostColumns);
  auto columns = nlohmann::ordered_json::array();
  for (const Description& one : kDescriptions) columns.push_back({one.name, one.type});
  return columns;
}

void ParquetColumns::Add(const MergedCall& merged, const Facts& facts, const Site* site) {
  ++rows_;
  PutIdentity(merged, facts);
  PutArguments(facts);
  PutKernel(facts.call.kernel);
  PutSite(merged, site);
}

void ParquetColumns::PutIdentity(const MergedCall& merged, const Facts& facts) {
  const reader::Call& call = facts.call;
  const reader::Communicator* const on = facts.communicator;
  const std::int64_t entered = facts.time_ns / 1000;
  buffers_[kTime].Put(entered);
  buffers_[kTimeNs].Put(facts.time_ns);
  buffers_[kRank].Put<std::int32_t>(facts.rank);
  buffers_[kSeq].Put(static_cast<std::int64_t>(call.slot));
  buffers_[kEntered].Put(entered);
  Put(kReturned, facts.returned_ns ? std::optional(*facts.returned_ns / 1000) : std::nullopt);
  buffers_[kStarted].PutNull<std::int64_t>();  // the instants of marks are not known, only their order
  buffers_[kFinished].PutNull<std::int64_t>();
  PutText(kHost, merged.number, [&] { return Printable(facts.box.host); });
  buffers_[kPid].Put(std::int64_t{facts.box.pid});
  buffers_[kThread].Put(std::int64_t{call.thread});
  buffers_[kSlot].Put(static_cast<std::int64_t>(call.slot));
  PutText(kCommunicator, on ? on->id : 0, [&] { return on && on->id != 0 ? diagnosis::Hex16(on->id) : ""; });
  Put(kCommunicatorSize, on ? std::optional(std::int64_t{on->size}) : std::nullopt);
  PutText(kCommunicatorFlags, on ? on->flags : 0,
          [&] { return on ? fmt::format("{}", fmt::join(CommunicatorFlagNames(on->flags), ",")) : ""; });
  const bool known = on && (on->flags & format::kCommRankUnknown) == 0;
  Put(kCommunicatorRank, known ? std::optional(static_cast<std::int32_t>(on->rank)) : std::nullopt);
  // A label may be given late: it belongs to the piece.
  PutText(kLabel, on ? format::Mix(on->id, std::hash<std::string>()(on->label)) : 0,
          [&] { return on ? Printable(on->label) : ""; });
}

void ParquetColumns::PutArguments(const Facts& facts) {
  const reader::Call& call = facts.call;
  Put(kPosition, Signed(facts.position));
  PutText(kOp, static_cast<std::uint64_t>(call.function), [&] { return OpText(call.function); });
  Put(kCount, Signed(facts.count));
  Put(kBytes, Signed(facts.bytes));
  PutText(kDtype, call.dtype, [&] { return DtypeText(call.dtype); });
  PutText(kReduction, call.reduction, [&] { return ReductionText(call.reduction); });
  Put<std::int32_t>(kRoot, facts.root);
  Put<std::int32_t>(kPeer, facts.peer);
  PutText(kStream, call.stream, [&] { return diagnosis::Hex(call.stream); });
  Put(kGroup, Signed(facts.group));
  PutText(kState, static_cast<std::uint64_t>(facts.standing.state),
          [&] { return std::string(Name(facts.standing.state)); });
  buffers_[kPending].Put(std::uint8_t{facts.standing.pending});
  buffers_[kDuration].Put(InSeconds(facts.duration_ns));
  PutText(kLibrary, functions::IsMpi(call.function), [&] { return std::string(LibraryText(call.function)); });
  Put<std::int32_t>(kTag, facts.tag);
  Put(kCompletedNs, facts.completed_ns);
  Put(kWaiter, Signed(facts.waiter));
  Put(kSignature, facts.signature ? std::optional(std::int64_t{*facts.signature}) : std::nullopt);
  PutText(kPayload, std::hash<std::string>()(facts.payload), [&] { return Printable(facts.payload); });
  constexpr std::uint64_t kNoResult = UINT64_MAX;
  PutText(kResult, facts.has_result ? static_cast<std::uint32_t>(call.result) : kNoResult,
          [&] { return facts.has_result ? ResultText(call.result) : ""; });
  PutText(kFlags, call.flags, [&] { return fmt::format("{}", fmt::join(FlagNames(call.flags), ",")); });
}

void ParquetColumns::PutKernel(const format::KernelTime& kernel) {
  const bool timed = kernel.clock != format::KernelClock::kNone;
  Put(kKernelDuration, timed ? std::optional(InSeconds(kernel.ns)) : std::nullopt);
  PutText(kKernelClock, static_cast<std::uint64_t>(kernel.clock), [&] {
    return std::string(!timed ? "" : kernel.clock == format::KernelClock::kGpu ? "gpu" : "proxy");
  });
  PutText(kKernelAlgorithm, static_cast<std::uint64_t>(kernel.algorithm),
          [&] { return std::string(format::Name(kernel.algorithm)); });
  PutText(kKernelProtocol, static_cast<std::uint64_t>(kernel.protocol),
          [&] { return std::string(format::Name(kernel.protocol)); });
  Put(kKernelChannels, timed ? std::optional(std::int32_t{kernel.channels}) : std::nullopt);
}

void ParquetColumns::PutSite(const MergedCall& merged, const Site* site) {
  const diagnosis::SourcePlace* const source = site && site->source ? &*site->source : nullptr;
  // The address means the same in one process.
  const std::uint64_t key = site ? format::Mix(merged.number, merged.call.site) : 0;
  PutText(kSiteFile, key, [&] { return source ? Printable(source->file) : ""; });
  const bool line = source && source->line > 0;
  Put(kSiteLine, line ? std::optional(std::int32_t{source->line}) : std::nullopt);
  PutText(kSiteFunction, key, [&] { return source ? Printable(source->function) : ""; });
  PutText(kSiteModule, key, [&] { return source ? Printable(source->module) : ""; });
  const bool module = source && !source->module.empty();
  Put(kSiteOffset, module ? std::optional(static_cast<std::int64_t>(source->offset)) : std::nullopt);
  Put(kSiteOnMainThread, source ? std::optional(std::uint8_t{source->on_main_thread}) : std::nullopt);
  PutText(kSiteText, key, [&] { return site ? Printable(site->text) : ""; });
}

ParquetColumns::Batch ParquetColumns::Take() {
  Batch batch;
  auto columns = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < kColumns; ++i) {
    ColumnBuffer& buffer = buffers_[i];
    nlohmann::ordered_json column = {{"new", texts_[i].TakeNew()}, {"nulls", buffer.nulls()}};
    if (!buffer.all_null()) {
      column["sizes"] = {buffer.validity().size(), buffer.values().size()};
      for (const std::string_view bytes : {buffer.validity(), buffer.values()}) {
        batch.body.Put(bytes);
        batch.body.Resize((batch.body.size() + kAligned - 1) / kAligned * kAligned);
      }
    }
    columns.push_back(std::move(column));
    buffer.Clear();
  }
  batch.head = {{"rows", rows_}, {"bytes", batch.body.size()}, {"columns", std::move(columns)}};
  rows_ = 0;
  return batch;
}

}  // namespace ncclwatch::analyzer::exporting
