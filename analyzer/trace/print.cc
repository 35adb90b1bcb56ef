#include "analyzer/trace/print.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/format/python_site.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kFollowed[] = "{:<15} {:>5} {:<10} {:>7} {:<14} {:>10} {:<9} {:<4} {:>5} {:<8} {:>9}  {}\n";

std::string CommunicatorText(const Row& row, const diagnosis::CommunicatorNames& names) {
  return row.communicator == 0 ? Printable(row.label) : Printable(names.Short(row.communicator));
}

diagnosis::CommunicatorNames NamesOf(const std::vector<Row>& rows) {
  diagnosis::CommunicatorNames names;
  for (const Row& row : rows) names.Add(row.communicator, row.label);
  return names;
}

template <typename Number>
std::string Text(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "";
}

std::string RootOrPeer(const Row& row) { return row.peer ? "p" + Text(row.peer) : Text(row.root); }
std::string TookText(const Row& row) { return (row.pending ? ">" : "") + DurationText(row.duration); }

// True if some rank uses more than one value of the field.
template <typename Field>
bool Varies(const std::vector<Row>& rows, Field Row::*field) {
  std::map<std::pair<std::uint32_t, std::string>, std::set<Field>> seen;
  for (const Row& row : rows)
    if (row.*field != Field{}) seen[{row.pid, row.host}].insert(row.*field);
  for (const auto& [process, values] : seen)
    if (values.size() > 1) return true;
  return false;
}

std::string KernelText(const format::KernelTime& kernel) {
  if (kernel.clock == format::KernelClock::kNone) return "";
  return DurationText(absl::Nanoseconds(static_cast<std::int64_t>(kernel.ns)));
}

// Of a black box: other traces have numbers of their own.
bool IsPython(const Row& row) {
  return row.site >= 1 && row.site <= format::kPythonSites && row.source && !row.source->module.empty();
}

// "train.cc:212 in Step", or "train+0x1234".
std::string SiteText(const Row& row) {
  return row.source && !row.source->file.empty() ? diagnosis::LineText(*row.source) : row.site_text;
}

}  // namespace

std::string ToTable(const std::vector<Row>& rows, bool wide) {
  const bool threads = wide || Varies(rows, &Row::thread);
  const bool streams = wide || Varies(rows, &Row::stream);
  Table table({{"TIME"},
               {"RANK", true},
               {"THREAD", true},
               {"COMM"},
               {"POS", true},
               {"OP"},
               {"COUNT", true},
               {"DTYPE"},
               {"RED"},
               {"ROOT", true},
               {"STREAM"},
               {"GROUP", true},
               {"STATE"},
               {"TOOK", true},
               {"KERNEL", true},
               {"RESULT"},
               {"PAYLOAD"},
               {"SITE"}});
  const diagnosis::CommunicatorNames names = NamesOf(rows);
  for (const Row& row : rows) {
    const bool says_more = wide || (row.result != "success" && !row.result.empty());
    table.Add({ClockText(row.time), fmt::format("{}", row.rank), threads ? fmt::format("{}", row.thread) : "",
               CommunicatorText(row, names), Text(row.position), row.op, Text(row.count), row.dtype, row.reduction,
               RootOrPeer(row), streams && row.stream ? diagnosis::Hex(row.stream) : "", Text(row.group), row.state,
               TookText(row), KernelText(row.kernel), says_more ? row.result : "", Printable(row.payload),
               wide || IsPython(row) ? SiteText(row) : ""});
  }
  return table.Text();
}

std::string FollowHeading() {
  return fmt::format(kFollowed, "TIME", "RANK", "COMM", "POS", "OP", "COUNT", "DTYPE", "RED", "ROOT", "STATE", "TOOK",
                     "RESULT");
}

std::string FollowLine(const Row& row, diagnosis::CommunicatorNames* names) {
  names->Add(row.communicator, row.label);
  return fmt::format(kFollowed, ClockText(row.time), fmt::format("{}", row.rank), CommunicatorText(row, *names),
                     Text(row.position), row.op, Text(row.count), row.dtype, row.reduction, RootOrPeer(row), row.state,
                     TookText(row), row.result == "success" ? "" : row.result);
}

}  // namespace ncclwatch::analyzer
