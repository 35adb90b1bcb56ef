#include "analyzer/correlate/history.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyzer/files/input_file.h"

namespace ncclwatch::correlate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kOneFailure_s = 60;
constexpr double kLatest_s = 253402300800;  // the year 10000: times in milliseconds are later

std::optional<double> Known(double seconds) {
  return seconds >= 0 && seconds < kLatest_s ? std::optional(seconds) : std::nullopt;
}

// Seconds, or the forms of RFC 3339 and of Slurm; without a zone UTC.
std::optional<double> TimeOf(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return Known(seconds);
  absl::Time time;
  for (const char* form : {"%Y-%m-%d%ET%H:%M:%E*S%Ez", "%Y-%m-%d%ET%H:%M:%E*S", "%Y-%m-%d %H:%M:%E*S"})
    if (std::string why; absl::ParseTime(form, text, &time, &why))
      return Known(static_cast<double>(absl::ToUnixMicros(time)) / 1e6);
  return std::nullopt;
}

std::optional<double> TimeOf(const Json& value) {
  if (value.is_number()) return Known(value.get<double>());
  return value.is_string() ? TimeOf(value.get<std::string>()) : std::nullopt;
}

std::string TextOf(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || found->is_null() || found->is_structured()) return "";  // dump() recurses
  return found->is_string() ? found->get<std::string>() : found->dump();
}

void Add(Event event, History* history) {
  if (event.type == "failure") {
    if (event.category.empty()) event.category = "unknown";
    history->failures.push_back(std::move(event));
  } else if (!event.type.empty()) {
    history->events.push_back(std::move(event));
  }
}

// False: no such line.
bool AddJsonLine(const std::string& text, History* history) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object() || !line.contains("timestamp") || !line.contains("event_type")) return false;
  const auto at = TimeOf(line["timestamp"]);
  if (!at) return false;
  Event event{*at, TextOf(line, "event_type"), "", TextOf(line, "host"), TextOf(line, "job")};
  const auto details = line.find("details");
  if (details != line.end() && details->is_object()) {
    event.category = TextOf(*details, "category");
    if (event.host.empty()) event.host = TextOf(*details, "host");
  }
  Add(std::move(event), history);
  return true;
}

using Columns = std::map<std::string, std::size_t>;

std::string Cell(const Columns& columns, const std::vector<std::string>& cells,
                 std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = columns.find(name); found != columns.end() && found->second < cells.size())
      return cells[found->second];
  return "";
}

// Of a job of Slurm; steps ("12.batch") repeat their job.
void AddSlurmJob(const Columns& columns, const std::vector<std::string>& cells, History* history) {
  const std::string job = Cell(columns, cells, {"jobid"}), state = Cell(columns, cells, {"state"}),
                    hosts = Cell(columns, cells, {"nodelist"});
  if (job.find('.') != std::string::npos) return;
  const auto start = TimeOf(Cell(columns, cells, {"start"})), end = TimeOf(Cell(columns, cells, {"end"}));
  if (start) history->events.push_back({*start, "job_start", "", hosts, job});
  const std::string word = absl::AsciiStrToLower(state.substr(0, state.find(' ')));  // "CANCELLED by 0"
  for (const char* failed : {"failed", "node_fail", "out_of_memory", "timeout", "boot_fail"})
    if (end && word == failed) history->failures.push_back({*end, "failure", word, hosts, job});
}

bool AddTable(std::istream* file, const std::string& header, History* history) {
  const char separator = header.find('|') != std::string::npos    ? '|'
                         : header.find('\t') != std::string::npos ? '\t'
                                                                  : ',';
  const auto split = [&](const std::string& line) {
    std::vector<std::string> cells = absl::StrSplit(line, separator);
    for (std::string& cell : cells) cell = std::string(absl::StripAsciiWhitespace(cell));
    return cells;
  };
  Columns columns;
  const std::vector<std::string> names = split(header);
  for (std::size_t i = 0; i < names.size(); ++i) columns[absl::AsciiStrToLower(names[i])] = i;
  const bool slurm = columns.contains("jobid") && columns.contains("state");
  if (!slurm && !(columns.contains("timestamp") && columns.contains("event_type"))) return false;
  for (std::string line; std::getline(*file, line);) {
    const std::vector<std::string> cells = split(line);
    if (slurm) {
      AddSlurmJob(columns, cells, history);
      continue;
    }
    const auto at = TimeOf(Cell(columns, cells, {"timestamp"}));
    if (at)
      Add({*at, Cell(columns, cells, {"event_type"}), Cell(columns, cells, {"category", "details.category"}),
           Cell(columns, cells, {"host"}), Cell(columns, cells, {"job"})},
          history);
  }
  return true;
}

absl::Status AddOne(const std::string& path, History* history) {
  analyzer::InputFile file(path);
  std::string line;
  if (!file.status().ok()) return file.status();
  if (!std::getline(file, line)) return absl::NotFoundError(path + ": it is empty");
  if (!line.starts_with("{"))
    return AddTable(&file, line, history)
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     path + ": neither events.jsonl, nor CSV with timestamp and event_type, nor `sacct -P`");
  std::size_t wrong = 0;
  do wrong += line.empty() || AddJsonLine(line, history) ? 0 : 1;
  while (std::getline(file, line));
  if (wrong > 0) history->notes.push_back(fmt::format("{}: {} lines are no events", path, wrong));
  return absl::OkStatus();
}

}  // namespace

absl::Status AddFile(const std::string& path, History* history) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return AddOne(path, history);
  std::size_t found = 0;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (!entry->is_regular_file(error) || (extension != ".jsonl" && extension != ".csv" && extension != ".sacct"))
      continue;
    ++found;
    if (const absl::Status status = AddOne(entry->path().string(), history); !status.ok())
      history->notes.emplace_back(status.message());
  }
  return found > 0 ? absl::OkStatus() : absl::NotFoundError(path + ": no .jsonl, .csv or .sacct file in it");
}

void Settle(History* history) {
  const auto by_time = [](const Event& a, const Event& b) { return a.at < b.at; };
  std::stable_sort(history->events.begin(), history->events.end(), by_time);
  std::stable_sort(history->failures.begin(), history->failures.end(), by_time);
  std::map<std::pair<std::string, std::string>, double> last;
  std::erase_if(history->failures, [&](const Event& one) {
    const auto [found, made] = last.try_emplace({one.category, one.job}, one.at);
    const bool again = !made && one.at - found->second < kOneFailure_s;
    found->second = one.at;
    return again;
  });
}

}  // namespace ncclwatch::correlate
