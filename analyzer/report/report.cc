#include "analyzer/report/report.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/time/clock.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>

#include "analyzer/console/progress.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/report/call_columns.h"
#include "analyzer/report/page_text.h"
#include "analyzer/report/sections.h"
#include "core/model/text.h"
#include "core/report/render.h"
#include "core/text/printable.h"
#include "core/view/as_of.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

// More calls than these make a file that browsers open slowly: then the newest of each rank are shown.
constexpr std::uint64_t kMostCalls = 3'000'000;
constexpr std::size_t kProcessesOfBlock = 64;  // that the page unpacks at once

std::string Deflated(const std::string& bytes) {
  constexpr int kLevel = 4;
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                kLevel) != Z_OK)
    size = 0;
  out.resize(size);
  return out;
}

// JSON for an element of the page: nothing in it ends the element.
std::string Dumped(const Json& json) {
  const std::string text = PrintableJson(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return absl::StrReplaceAll(text, {{"<", "\\u003c"}});
}

std::string Element(std::string_view id, std::string_view type, const std::string& content) {
  return fmt::format("<script id=\"{}\" type=\"{}\">{}</script>\n", id, type, content);
}

// Some processes' calls: the length of a text of JSON, the text, their columns; deflated, in base64.
class Blocks {
 public:
  explicit Blocks(const WritePart& write) : write_(write) {}
  bool Add(const CallColumns& calls) {
    heads_.push_back(calls.Head());
    bytes_ += calls.Bytes();
    return heads_.size() < kProcessesOfBlock || Flush();
  }
  bool Flush() {
    if (heads_.empty()) return true;
    const std::string head = heads_.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string block;
    for (std::size_t i = 0; i < 4; ++i) block.push_back(static_cast<char>(head.size() >> 8 * i));
    block += head + bytes_;
    heads_ = Json::array();
    bytes_.clear();
    return write_(
        Element(absl::StrCat("calls-", blocks_++), "application/octet-stream", absl::Base64Escape(Deflated(block))));
  }

 private:
  const WritePart& write_;
  Json heads_ = Json::array();
  std::string bytes_;
  std::size_t blocks_ = 0;
};

struct Reported {
  std::uint64_t calls = 0, left_out = 0;
  std::int64_t first_ns = 0;  // CLOCK_REALTIME
};

bool WriteCalls(const Recording& recording, const WritePart& write, JobReport* report, Reported* reported) {
  const std::size_t count = std::max<std::size_t>(1, recording.processes().size());
  SiteLines lines(recording.Images());
  Progress progress("writing calls", count);
  Blocks blocks(write);
  std::size_t done = 0;
  for (const ProcessRecording& process : recording.processes()) {
    const CallColumns calls(process, kMostCalls / count, &lines, &report->failures);
    reported->calls += calls.calls();
    reported->left_out += calls.left_out();
    if (calls.first_ns() != 0 && (reported->first_ns == 0 || calls.first_ns() < reported->first_ns))
      reported->first_ns = calls.first_ns();
    if (!blocks.Add(calls)) return false;
    progress.Done(++done);
  }
  return blocks.Flush();
}

// What people read: with lines of source files in the texts, where `diagnose --json` has places in modules.
Json ForPeople(const diagnosis::Diagnosis& verdict) {
  Json list = Json::array();
  for (const diagnosis::Finding& finding : verdict.findings) {
    Json evidence = Json::array(), next_steps = Json::array();
    for (const std::string& line : finding.evidence) evidence.push_back(Printable(line));
    for (const std::string& line : finding.next_steps) next_steps.push_back(Printable(line));
    list.push_back({{"summary", Printable(finding.summary)}, {"evidence", evidence}, {"next_steps", next_steps}});
  }
  return list;
}

Json LostOf(const Recording& recording) {
  Json list = Json::array();
  for (const ProcessRecording& process : recording.processes())
    if (process.lost_calls() != 0)
      list.push_back({{"rank", process.rank()},
                      {"calls", process.lost_calls()},
                      {"which", LostText(process.lost())},
                      {"of_ring", process.segments().empty()}});  // the oldest, as a ring loses them
  return list;
}

Json ProcessesOf(const diagnosis::View& view) {
  Json list = Json::array();
  for (const diagnosis::Process& process : view.processes) {
    Json ranks = Json::array();
    for (const int node : process.nodes) ranks.push_back(view.nodes[node].rank);
    const std::int64_t last_sign = process.outcome.last_sign_ns + view.realtime_minus_monotonic_ns;
    list.push_back({{"ranks", std::move(ranks)},
                    {"pid", process.box->pid},
                    {"gone", process.outcome.gone()},
                    {"last_sign_ns", absl::StrCat(last_sign)}});
  }
  return list;
}

// At the instant that was judged, as the diagnosis looked at it.
void AddView(const diagnosis::Snapshot& snapshot, const std::vector<diagnosis::Finding>& findings, Json* job) {
  const bool later = diagnosis::TellsOfLater(snapshot);
  const diagnosis::Snapshot then = later ? diagnosis::AsOf(snapshot, snapshot.now_ns) : diagnosis::Snapshot();
  const diagnosis::View view = diagnosis::MakeView(later ? then : snapshot);
  (*job)["judged_ns"] = absl::StrCat(view.now_ns + view.realtime_minus_monotonic_ns);
  (*job)["waits"] = WaitsSection(view, findings);
  (*job)["communicators"] = ProgressSection(view);
  (*job)["processes"] = ProcessesOf(view);
}

std::string WithoutScript(const diagnosis::Diagnosis& for_people) {
  const std::string text = diagnosis::ToText(for_people);
  return absl::StrCat("<noscript><pre>", absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}}),
                      "</pre></noscript>\n");
}

Json HeadOf(const std::string& name, bool alive) {
  return {{"schema", "ncclwatch.report/1"},
          {"name", Printable(name)},
          {"made_ns", absl::StrCat(absl::ToUnixNanos(absl::Now()))},
          {"alive", alive}};
}

}  // namespace

absl::Status WriteReport(std::string_view name, const diagnosis::Diagnosis& verdict, const Json& stacks,
                         const WritePart& write) {
  const Recording recording = Recording::Open({});
  Json job = HeadOf(std::string(name), true);
  job["environment"] = EnvironmentSection({});
  job["stacks"] = stacks;
  AddView(diagnosis::Snapshot(), verdict.findings, &job);
  job["judged_ns"] = job["made_ns"];
  job["diagnosis"] = DiagnosisJson(verdict, {}, Attempts());
  job["which_attempt"] = "";
  job["told"] = ForPeople(verdict);
  job["lost"] = LostOf(recording);
  job["calls"] = {{"count", 0}, {"left_out", 0}, {"first_ns", "0"}};
  job["steps"] = StepsSection(recording);
  job["ideal"] = IdealSection(recording);
  if (write(page::kBeforeData) && write(WithoutScript(verdict)) &&
      write(Element("job", "application/json", Dumped(job))))
    write(page::kAfterData);
  return absl::OkStatus();
}

absl::Status WriteReport(std::string_view command, const WritePart& write, JobReport* report) {
  reader::RunImage run = ReadJob(report->located.paths, reader::Calls::kForVerdict);
  report->failures = run.failures;
  if (run.boxes.empty()) return absl::NotFoundError("no black box could be read");
  AddCrashFrames(&run);
  SiteLines lines(run.boxes);
  Json job = HeadOf(report->name, AnyAlive(run.boxes));
  job["environment"] = EnvironmentSection(run.boxes);
  job["stacks"] = StacksSection(run);
  const Judged judged = ToJudge(std::move(run));
  report->verdict = Diagnose(judged, {nullptr, TopologyOfTheJob(command)});
  NameAndIgnore(command, &lines, &report->verdict);
  AddView(judged.snapshot, report->verdict.findings, &job);
  const Attempts attempts = AsDiagnosed(report->verdict, report->located.attempts);
  job["diagnosis"] = DiagnosisJson(report->verdict, report->failures, attempts);
  job["which_attempt"] = WhichAttempt(attempts);
  const diagnosis::Diagnosis for_people = lines.ForPeople(report->verdict);
  job["told"] = ForPeople(for_people);

  const Recording recording = Recording::Open(report->located.paths);
  job["lost"] = LostOf(recording);
  std::future<Json> steps = std::async(std::launch::async, [&] { return StepsSection(recording); });
  std::future<Json> ideal = std::async(std::launch::async, [&] { return IdealSection(recording); });
  std::future<Json> peers = std::async(std::launch::async, [&] { return PeersSection(recording); });
  Reported reported;
  if (!write(page::kBeforeData) || !write(WithoutScript(for_people)) ||
      !WriteCalls(recording, write, report, &reported))
    return absl::OkStatus();
  job["calls"] = {
      {"count", reported.calls}, {"left_out", reported.left_out}, {"first_ns", absl::StrCat(reported.first_ns)}};
  job["steps"] = steps.get();
  job["ideal"] = ideal.get();
  job["peers"] = peers.get();
  if (write(Element("job", "application/json", Dumped(job)))) write(page::kAfterData);
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
