#include "analyzer/trace/columns.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kAlignment = 64;

struct Column {
  std::string name, format;
  std::size_t rows = 0, nulls = 0;
  std::string validity, offsets, values;  // buffers; offsets of texts and lists alone, values of all but lists
};

template <typename T>
void Append(std::string* buffer, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  buffer->append(bytes, sizeof bytes);
}

void AppendOffset(std::string* offsets, std::size_t value) { Append(offsets, static_cast<std::int64_t>(value)); }

void AppendBit(std::string* buffer, std::size_t at, bool value) {
  if (at % 8 == 0) buffer->push_back('\0');
  if (value) buffer->back() = static_cast<char>(static_cast<unsigned char>(buffer->back()) | (1u << (at % 8)));
}

template <typename T>
const char* FormatOf() {
  if constexpr (std::is_same_v<T, std::int32_t>) return "i";
  if constexpr (std::is_same_v<T, std::int64_t>) return "l";
  if constexpr (std::is_same_v<T, std::uint32_t>) return "I";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "L";
  if constexpr (std::is_same_v<T, double>) return "g";
  if constexpr (std::is_same_v<T, bool>) return "b";
  return "U";
}

class ColumnTable {
 public:
  explicit ColumnTable(const std::vector<Row>& rows) : rows_(rows) {}

  // `value` gives an optional of a number, a bool or a text for each row.
  template <typename Value>
  void Add(const char* name, Value value, const char* format = nullptr) {
    using T = typename std::invoke_result_t<Value, const Row&>::value_type;
    Column column;
    column.name = name;
    column.format = format ? format : FormatOf<T>();
    column.rows = rows_.size();
    if constexpr (std::is_same_v<T, std::string>) AppendOffset(&column.offsets, 0);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto cell = value(rows_[i]);
      AppendBit(&column.validity, i, cell.has_value());
      if (!cell) ++column.nulls;
      if constexpr (std::is_same_v<T, std::string>) {
        if (cell) column.values += Printable(*cell);
        AppendOffset(&column.offsets, column.values.size());
      } else if constexpr (std::is_same_v<T, bool>) {
        AppendBit(&column.values, i, cell.value_or(false));
      } else {
        Append(&column.values, cell.value_or(T{}));
      }
    }
    columns_.push_back(std::move(column));
  }

  // `value` gives the texts of each row.
  template <typename Value>
  void AddLists(const char* name, Value value) {
    Column lists, items;
    lists.name = name;
    lists.format = "+L";
    lists.rows = rows_.size();
    items.name = "item";
    items.format = "U";
    AppendOffset(&lists.offsets, 0);
    AppendOffset(&items.offsets, 0);
    for (const Row& row : rows_) {
      for (const std::string& text : value(row)) {
        items.values += Printable(text);
        AppendOffset(&items.offsets, items.values.size());
        ++items.rows;
      }
      AppendOffset(&lists.offsets, items.rows);
    }
    columns_.push_back(std::move(lists));
    columns_.push_back(std::move(items));
    ++items_;
  }

  std::string Bytes() const {
    std::string head = fmt::format("{} {}\n", rows_.size(), columns_.size() - items_), body;
    for (const Column& column : columns_) {
      const bool text = column.format == "U";
      head += fmt::format("{} {} {} {} {}", column.name, column.format, column.rows, column.nulls, text ? 3 : 2);
      head += Put(column.nulls > 0 ? column.validity : std::string(), &body);
      head += Put(column.offsets.empty() ? column.values : column.offsets, &body);
      head += Put(text ? column.values : std::string(), &body) + "\n";
    }
    head += "\n";
    Pad(&head);
    return head + body;
  }

 private:
  static void Pad(std::string* bytes) {
    bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  }
  static std::string Put(const std::string& buffer, std::string* body) {
    if (buffer.empty()) return " 0 0";
    const std::size_t at = body->size();
    *body += buffer;
    Pad(body);
    return fmt::format(" {} {}", at, buffer.size());
  }

  const std::vector<Row>& rows_;
  std::vector<Column> columns_;  // items of lists after their lists
  std::size_t items_ = 0;
};

std::optional<std::string> Text(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

}  // namespace

std::string ToColumns(const std::vector<Row>& rows) {
  ColumnTable table(rows);
  const auto source = [](auto member) {
    return [member](const Row& row) { return row.source ? member(*row.source) : std::nullopt; };
  };
  table.Add(
      "time", [](const Row& row) { return std::optional<std::int64_t>(absl::ToUnixNanos(row.time)); }, "tsn:UTC");
  table.Add("rank", [](const Row& row) { return std::optional<std::int32_t>(row.rank); });
  table.Add("host", [](const Row& row) { return Text(row.host); });
  table.Add("pid", [](const Row& row) { return std::optional<std::uint32_t>(row.pid); });
  table.Add("thread", [](const Row& row) { return std::optional<std::uint32_t>(row.thread); });
  table.Add("slot", [](const Row& row) { return std::optional<std::uint64_t>(row.slot); });
  table.Add("communicator", [](const Row& row) {
    return row.communicator ? std::optional(diagnosis::Hex16(row.communicator)) : std::nullopt;
  });
  table.Add("communicator_rank", [](const Row& row) { return row.communicator_rank; });
  table.Add("label", [](const Row& row) { return Text(row.label); });
  table.Add("position", [](const Row& row) { return row.position; });
  table.Add("op", [](const Row& row) { return Text(row.op); });
  table.Add("count", [](const Row& row) { return row.count; });
  table.Add("dtype", [](const Row& row) { return Text(row.dtype); });
  table.Add("reduction", [](const Row& row) { return Text(row.reduction); });
  table.Add("payload", [](const Row& row) { return Text(row.payload); });
  table.Add("root", [](const Row& row) { return row.root; });
  table.Add("peer", [](const Row& row) { return row.peer; });
  table.Add("stream", [](const Row& row) { return std::optional<std::uint64_t>(row.stream); });
  table.Add("group", [](const Row& row) { return row.group; });
  table.Add("state", [](const Row& row) { return Text(row.state); });
  table.Add("pending", [](const Row& row) { return std::optional<bool>(row.pending); });
  table.Add("duration_s", [](const Row& row) { return std::optional<double>(absl::ToDoubleSeconds(row.duration)); });
  table.Add("kernel_s", [](const Row& row) {
    const bool timed = row.kernel.clock != format::KernelClock::kNone;
    return timed ? std::optional(InSeconds(row.kernel.ns)) : std::nullopt;
  });
  table.Add("algorithm", [](const Row& row) { return Text(std::string(format::Name(row.kernel.algorithm))); });
  table.Add("protocol", [](const Row& row) { return Text(std::string(format::Name(row.kernel.protocol))); });
  table.Add("result", [](const Row& row) { return Text(row.result); });
  table.Add("site_file", source([](const diagnosis::SourcePlace& place) { return Text(place.file); }));
  table.Add("site_line", source([](const diagnosis::SourcePlace& place) {
              return place.line > 0 ? std::optional<std::int32_t>(place.line) : std::nullopt;
            }));
  table.Add("site_function", source([](const diagnosis::SourcePlace& place) { return Text(place.function); }));
  table.Add("site_module", source([](const diagnosis::SourcePlace& place) { return Text(place.module); }));
  table.Add("site_offset", source([](const diagnosis::SourcePlace& place) {
              return place.module.empty() ? std::nullopt : std::optional<std::uint64_t>(place.offset);
            }));
  table.Add("site_on_main_thread",
            source([](const diagnosis::SourcePlace& place) { return std::optional<bool>(place.on_main_thread); }));
  table.Add("site_text", [](const Row& row) { return row.site ? Text(row.site_text) : std::nullopt; });
  table.AddLists("flags", [](const Row& row) -> const std::vector<std::string>& { return row.flags; });
  return table.Bytes();
}

}  // namespace ncclwatch::analyzer
