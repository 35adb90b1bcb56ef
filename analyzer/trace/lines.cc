#include "analyzer/trace/lines.h"

#include <absl/strings/str_replace.h>
#include <fmt/compile.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyzer/trace/pen.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

// `,"name":`
template <std::size_t kSize>
struct Key {
  std::array<char, kSize + 3> json{};
  consteval Key(
      const char (&name)[kSize]) {  // NOLINT(google-explicit-constructor): a name is written where one is wanted
    json[0] = ',';
    json[1] = '"';
    for (std::size_t i = 0; i + 1 < kSize; ++i) json[2 + i] = name[i];
    json[kSize + 1] = '"';
    json[kSize + 2] = ':';
  }
  std::string_view view() const { return {json.data(), json.size()}; }
};
template <std::size_t kSize>
Key(const char (&)[kSize]) -> Key<kSize>;

void PutHex16(std::uint64_t value, Pen* out) {
  out->Digits([&](char* to) {
    for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 15];
    return to;
  });
}

// Their values stand between commas.
class CsvCells {
 public:
  explicit CsvCells(Pen* out) : out_(*out) {}
  template <typename Name>
  void Null(const Name&) {
    End();
  }
  template <typename Name>
  void Rendered(const Name&, std::string_view cell) {
    out_.Put(cell);
    End();
  }
  template <typename Name>
  void Text(const Name&, std::string_view plain) {
    out_.Put(plain);
    End();
  }
  template <typename Name>
  void Millis(const Name& name, std::string_view micros) {
    Text(name, micros);
  }
  template <typename Name>
  void Bool(const Name& name, bool value) {
    Text(name, value ? "true" : "false");
  }
  template <typename Name, typename T>
  void Number(const Name&, T value) {
    out_.Number(value);
    End();
  }
  template <typename Name>
  void Hex(const Name&, std::uint64_t value) {
    out_.Put("0x");
    out_.Number(value, 16);
    End();
  }
  template <typename Name>
  void Identity(const Name&, const reader::Communicator* on) {
    if (on) PutHex16(on->id, &out_);
    End();
  }
  template <typename Name>
  void Seconds(const Name&, std::int64_t ns) {
    PutSeconds(ns);
    End();
  }
  template <typename Name>
  void Kernel(const Name&, const format::KernelTime& kernel, std::string_view way) {
    out_.Put(R"("{""duration_s"":)");
    PutSeconds(static_cast<std::int64_t>(kernel.ns));
    out_.Put(way);
    out_.Put('"');
    End();
  }
  void Site(std::string_view cells) { out_.Put(cells); }
  void EndLine(const Facts& facts) {
    out_.Number(facts.duration_ns);
    out_.Put('\n');
  }

 private:
  void End() { out_.Put(','); }
  void PutSeconds(std::int64_t ns) {
    out_.Digits([&](char* to) { return fmt::format_to(to, FMT_COMPILE("{}"), InSeconds(ns)); });
  }
  Pen& out_;
};

class JsonCells {
 public:
  explicit JsonCells(Pen* out) : out_(*out), begin_(out->at()) {}
  template <typename Name>
  void Null(const Name& name) {
    Rendered(name, "null");
  }
  template <typename Name>
  void Rendered(const Name& name, std::string_view value) {
    out_.Put(name.view());
    out_.Put(value);
  }
  template <typename Name>
  void Text(const Name& name, std::string_view plain) {
    if (plain.empty()) return Null(name);
    out_.Put(name.view());
    out_.Put('"');
    out_.Put(plain);
    out_.Put('"');
  }
  template <typename Name>
  void Millis(const Name& name, std::string_view micros) {
    out_.Put(name.view());
    out_.Put('"');
    out_.Put(micros.substr(0, UtcMicros::kMillis));
    out_.Put("Z\"");
  }
  template <typename Name>
  void Bool(const Name& name, bool value) {
    Rendered(name, value ? "true" : "false");
  }
  template <typename Name, typename T>
  void Number(const Name& name, T value) {
    out_.Put(name.view());
    out_.Number(value);
  }
  template <typename Name>
  void Hex(const Name& name, std::uint64_t value) {
    out_.Put(name.view());
    out_.Put("\"0x");
    out_.Number(value, 16);
    out_.Put('"');
  }
  template <typename Name>
  void Identity(const Name& name, const reader::Communicator* on) {
    if (!on || on->id == 0) return Null(name);
    out_.Put(name.view());
    out_.Put('"');
    PutHex16(on->id, &out_);
    out_.Put('"');
  }
  template <typename Name>
  void Seconds(const Name& name, std::int64_t ns) {
    out_.Put(name.view());
    PutSeconds(ns);
  }
  template <typename Name>
  void Kernel(const Name& name, const format::KernelTime& kernel, std::string_view way) {
    out_.Put(name.view());
    out_.Put(R"({"duration_s":)");
    PutSeconds(static_cast<std::int64_t>(kernel.ns));
    out_.Put(way);
  }
  void Site(std::string_view cells) { out_.Put(cells); }
  void EndLine(const Facts&) {
    *begin_ = '{';  // in place of the first comma
    out_.Put("}\n");
  }

 private:
  void PutSeconds(std::int64_t ns) {
    // As the library's dump() does it, without the rest of that.
    out_.Digits([&](char* to) { return nlohmann::detail::to_chars(to, to + Pen::kMostDigits, InSeconds(ns)); });
  }
  Pen& out_;
  char* const begin_;
};

template <typename Cells, typename Name, typename T>
void PutOptional(Cells* cells, const Name& name, const std::optional<T>& value) {
  value ? cells->Number(name, *value) : cells->Null(name);
}

std::string JsonText(std::string_view text) {
  return PrintableJson(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json SourceJson(const diagnosis::SourcePlace& source) {
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(Printable(value)); };
  return {{"file", text(source.file)},
          {"line", source.line > 0 ? Json(source.line) : Json(nullptr)},
          {"function", text(source.function)},
          {"module", text(source.module)},
          {"offset", source.module.empty() ? Json(nullptr) : Json(source.offset)},
          {"on_main_thread", source.on_main_thread}};
}

}  // namespace

std::string CsvHeading() {
  return "time,time_ns,rank,seq,entered,returned,started,finished,host,pid,thread,slot,communicator,communicator_rank,"
         "label,position,op,count,bytes,dtype,reduction,root,peer,stream,group,state,pending,duration_s,kernel,result,"
         "site,site_text,flags,library,communicator_size,communicator_flags,tag,completed_ns,waiter,signature,payload,"
         "duration_ns\n";
}

std::string_view UtcMicros::Of(std::int64_t realtime_ns) {
  constexpr std::size_t kSeconds = sizeof "2026-01-01T00:00:12" - 1, kDigits = 6;
  std::int64_t second = realtime_ns / kSecond, left = realtime_ns % kSecond;
  if (left < 0) left += kSecond, --second;
  if (second != second_) {
    second_ = second;
    const std::time_t at = second;
    std::tm utc{};
    gmtime_r(&at, &utc);
    std::strftime(text_, sizeof text_, "%Y-%m-%dT%H:%M:%S.000000Z", &utc);
  }
  left /= 1000;
  for (std::size_t digit = kDigits; digit > 0; --digit, left /= 10)
    text_[kSeconds + digit] = static_cast<char>('0' + left % 10);
  return {text_, sizeof text_ - 1};
}

std::string LineWriter::Quoted(std::string_view text) const {
  if (form_ == LineForm::kJson) return JsonText(Printable(text));
  std::string cell = Printable(text);
  if (cell.find_first_of(",\"") != std::string::npos) cell = "\"" + absl::StrReplaceAll(cell, {{"\"", "\"\""}}) + "\"";
  return cell;
}

std::string_view LineWriter::Known(const std::string& text) {
  if (text.empty()) return form_ == LineForm::kJson ? "\"\"" : "";
  const auto known = known_.find(text);
  return known != known_.end() ? known->second : known_.emplace(text, Quoted(text)).first->second;
}

std::string LineWriter::SiteCells(const Site* site) const {
  if (form_ == LineForm::kCsv) return site ? Quoted(site->line) + "," + Quoted(site->text) + "," : ",,";
  const std::string source =
      site && site->source
          ? PrintableJson(SourceJson(*site->source).dump(-1, ' ', false, Json::error_handler_t::replace))
          : "null";
  return R"(,"site":)" + source + R"(,"site_text":)" + (site ? JsonText(site->text) : "null");
}

std::string_view LineWriter::Flags(std::uint32_t flags, NamesOf names, FlagsCell* last) const {
  if (flags == last->flags) return last->text;
  last->flags = flags;
  last->text = form_ == LineForm::kJson ? Json(names(flags)).dump() : fmt::format("{}", fmt::join(names(flags), " "));
  return last->text;
}

std::string_view LineWriter::WayCells(const format::KernelTime& kernel) {
  const auto key = static_cast<std::uint64_t>(kernel.clock) | static_cast<std::uint64_t>(kernel.algorithm) << 8 |
                   static_cast<std::uint64_t>(kernel.protocol) << 16 |
                   static_cast<std::uint64_t>(kernel.channels) << 24;
  const auto [found, made] = ways_.try_emplace(key);
  if (!made) return found->second;
  const auto name = [](std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); };
  const Json way = {{"clock", kernel.clock == format::KernelClock::kGpu ? "gpu" : "proxy"},
                    {"algorithm", name(format::Name(kernel.algorithm))},
                    {"protocol", name(format::Name(kernel.protocol))},
                    {"channels", kernel.channels}};
  std::string cells = "," + way.dump().substr(1);  // without its brace
  if (form_ == LineForm::kCsv) absl::StrReplaceAll({{"\"", "\"\""}}, &cells);
  return found->second = std::move(cells);
}

template <typename Cells>
void LineWriter::Put(const Facts& facts, const Texts& texts, Cells cells) {
  const reader::Call& call = facts.call;
  const reader::Communicator* const on = facts.communicator;
  const std::string_view entered = clock_.Of(facts.time_ns);
  cells.Millis(Key("time"), entered);
  cells.Number(Key("time_ns"), facts.time_ns);
  cells.Number(Key("rank"), facts.rank);
  cells.Number(Key("seq"), call.slot);
  cells.Text(Key("entered"), entered);
  cells.Text(Key("returned"), facts.returned_ns ? clock_.Of(*facts.returned_ns) : "");
  cells.Null(Key("started"));  // the instants of marks are not known, only their order
  cells.Null(Key("finished"));
  cells.Rendered(Key("host"), texts.host);
  cells.Number(Key("pid"), facts.box.pid);
  cells.Number(Key("thread"), call.thread);
  cells.Number(Key("slot"), call.slot);
  cells.Identity(Key("communicator"), on);
  const bool known = on && (on->flags & format::kCommRankUnknown) == 0;
  known ? cells.Number(Key("communicator_rank"), on->rank) : cells.Null(Key("communicator_rank"));
  cells.Rendered(Key("label"), texts.label);
  PutOptional(&cells, Key("position"), facts.position);
  cells.Text(Key("op"), texts.op);
  PutOptional(&cells, Key("count"), facts.count);
  PutOptional(&cells, Key("bytes"), facts.bytes);
  cells.Text(Key("dtype"), texts.dtype);
  cells.Text(Key("reduction"), texts.reduction);
  PutOptional(&cells, Key("root"), facts.root);
  PutOptional(&cells, Key("peer"), facts.peer);
  cells.Hex(Key("stream"), call.stream);
  PutOptional(&cells, Key("group"), facts.group);
  cells.Text(Key("state"), Name(facts.standing.state));
  cells.Bool(Key("pending"), facts.standing.pending);
  cells.Seconds(Key("duration_s"), facts.duration_ns);
  texts.way.empty() ? cells.Null(Key("kernel")) : cells.Kernel(Key("kernel"), call.kernel, texts.way);
  cells.Text(Key("result"), texts.result);
  cells.Site(texts.site);
  cells.Rendered(Key("flags"), texts.flags);
  cells.Text(Key("library"), LibraryText(call.function));
  on ? cells.Number(Key("communicator_size"), on->size) : cells.Null(Key("communicator_size"));
  cells.Rendered(Key("communicator_flags"), texts.communicator_flags);
  PutOptional(&cells, Key("tag"), facts.tag);
  PutOptional(&cells, Key("completed_ns"), facts.completed_ns);
  PutOptional(&cells, Key("waiter"), facts.waiter);
  PutOptional(&cells, Key("signature"), facts.signature);
  texts.payload.empty() ? cells.Null(Key("payload")) : cells.Rendered(Key("payload"), texts.payload);
  cells.EndLine(facts);
}

void LineWriter::Append(const Facts& facts, std::string_view site, ByteBuffer* out) {
  constexpr std::size_t kMostElse = 2048;  // keys, numbers, instants
  static const std::string kNoLabel;
  const reader::Call& call = facts.call;
  const bool timed = call.kernel.clock != format::KernelClock::kNone;
  const Texts texts{.host = Known(facts.box.host),
                    .label = Known(facts.communicator ? facts.communicator->label : kNoLabel),
                    .op = OpText(call.function),
                    .dtype = DtypeText(call.dtype),
                    .reduction = ReductionText(call.reduction),
                    .way = timed ? WayCells(call.kernel) : std::string_view(),
                    .result = facts.has_result ? ResultText(call.result) : "",
                    .payload = facts.payload.empty() ? std::string_view() : Known(facts.payload),
                    .site = site,
                    .flags = Flags(call.flags, FlagNames, &flags_cell_),
                    .communicator_flags = Flags(facts.communicator ? facts.communicator->flags : 0,
                                                CommunicatorFlagNames, &communicator_flags_cell_)};
  Pen pen(out->Room(kMostElse + texts.size()));
  form_ == LineForm::kJson ? Put(facts, texts, JsonCells(&pen)) : Put(facts, texts, CsvCells(&pen));
  out->EndAt(pen.at());
}

}  // namespace ncclwatch::analyzer
