#include "analyzer/trace/csv.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <iterator>
#include <optional>

#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

// The cells of a line, one after another.
class Cells {
 public:
  explicit Cells(std::string* out) : out_(*out) {}
  void Empty() { Separate(); }
  void Text(std::string_view text) {
    Separate();
    out_.append(text);
  }
  template <typename T>
  void Number(T value) {
    Separate();
    const fmt::format_int digits(value);
    out_.append(digits.data(), digits.size());
  }
  template <typename T>
  void Number(const std::optional<T>& value) {
    value ? Number(*value) : Empty();
  }
  void Seconds(std::int64_t ns) {
    Separate();
    fmt::format_to(std::back_inserter(out_), "{}", InSeconds(ns));
  }
  void Moment(std::int64_t ns, UtcMicros* clock) {
    Separate();
    clock->Append(ns, &out_);
  }
  void End() { out_.push_back('\n'); }

 private:
  void Separate() {
    if (!first_) out_.push_back(',');
    first_ = false;
  }
  std::string& out_;
  bool first_ = true;
};

// As JSON, with doubled quotes.
std::string KernelCell(const format::KernelTime& kernel) {
  if (kernel.clock == format::KernelClock::kNone) return "";
  const auto word = [](std::string_view name) {
    return name.empty() ? std::string("null") : fmt::format(R"(""{}"")", name);
  };
  return fmt::format(R"("{{""duration_s"":{},""clock"":""{}"",""algorithm"":{},""protocol"":{},""channels"":{}}}")",
                     InSeconds(kernel.ns), kernel.clock == format::KernelClock::kGpu ? "gpu" : "proxy",
                     word(format::Name(kernel.algorithm)), word(format::Name(kernel.protocol)), kernel.channels);
}

}  // namespace

std::string CsvHeading() {
  return "time,time_ns,rank,seq,entered,returned,started,finished,host,pid,thread,slot,communicator,communicator_rank,"
         "label,position,op,count,bytes,dtype,reduction,root,peer,stream,group,state,pending,duration_s,kernel,result,"
         "site,site_text,flags,duration_ns\n";
}

void UtcMicros::Append(std::int64_t realtime_ns, std::string* text) {
  const std::int64_t second = realtime_ns / kSecond;
  if (second != second_) {
    second_ = second;
    const std::time_t at = second;
    std::tm utc{};
    gmtime_r(&at, &utc);
    std::strftime(digits_, sizeof digits_, "%Y-%m-%dT%H:%M:%S", &utc);
  }
  text->append(digits_);
  char micros[] = ".000000Z";
  std::int64_t left = realtime_ns % kSecond / 1000;
  for (std::size_t digit = 6; digit > 0; --digit, left /= 10) micros[digit] = static_cast<char>('0' + left % 10);
  text->append(micros, sizeof micros - 1);
}

const std::string& CsvLines::Quoted(const std::string& text) {
  const auto known = quoted_.find(text);
  if (known != quoted_.end()) return known->second;
  std::string cell = Printable(text);
  if (cell.find_first_of(",\"") != std::string::npos) cell = "\"" + absl::StrReplaceAll(cell, {{"\"", "\"\""}}) + "\"";
  return quoted_.emplace(text, std::move(cell)).first->second;
}

void CsvLines::Append(const MergedCall& merged, const Facts& facts, std::string* out) {
  const reader::Call& call = facts.call;
  const reader::Communicator* const on = facts.communicator;
  Cells cells(out);
  cells.Moment(facts.time_ns, &clock_);
  cells.Number(facts.time_ns);
  cells.Number(facts.rank);
  cells.Number(call.slot);
  cells.Moment(facts.time_ns, &clock_);
  facts.returned_ns ? cells.Moment(*facts.returned_ns, &clock_) : cells.Empty();
  cells.Empty();  // the instants of marks are not known, only their order
  cells.Empty();
  cells.Text(Quoted(facts.box.host));
  cells.Number(facts.box.pid);
  cells.Number(call.thread);
  cells.Number(call.slot);
  cells.Text(on ? diagnosis::Hex16(on->id) : "");
  on && (on->flags & format::kCommRankUnknown) == 0 ? cells.Number(on->rank) : cells.Empty();
  cells.Text(on ? Quoted(on->label) : std::string_view());
  cells.Number(facts.position);
  cells.Text(OpText(call.function));
  cells.Number(facts.count);
  cells.Number(facts.bytes);
  cells.Text(DtypeText(call.dtype));
  cells.Text(ReductionText(call.reduction));
  cells.Number(facts.root);
  cells.Number(facts.peer);
  cells.Text(diagnosis::Hex(call.stream));
  cells.Number(facts.group);
  cells.Text(Name(facts.standing.state));
  cells.Text(facts.standing.pending ? "true" : "false");
  cells.Seconds(facts.duration_ns);
  cells.Text(KernelCell(call.kernel));
  cells.Text(facts.has_result ? ResultText(call.result) : "");
  const Site* const site = sites_.Of(merged);
  cells.Text(site ? std::string_view(Quoted(site->line)) : std::string_view());
  cells.Text(site ? std::string_view(Quoted(site->text)) : std::string_view());
  cells.Text(fmt::format("{}", fmt::join(FlagNames(call.flags), " ")));
  cells.Number(facts.duration_ns);
  cells.End();
}

}  // namespace ncclwatch::analyzer
