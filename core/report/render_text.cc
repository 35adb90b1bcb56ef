// For a person at 3 a.m.: the verdict in the first line, then who is in which call, then why, then what to do.
#include "core/report/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/ignore.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/format/mpi_record.h"

namespace ncclwatch::diagnosis {
namespace {

std::string Cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string Padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string WhoText(const Finding& finding) {
  if (finding.culprits.empty()) return "no single rank";
  std::string text = Ranks(finding.culprits);
  std::vector<std::string> places;
  for (const Culprit& culprit : finding.culprit_details) {
    if (culprit.host.empty() && !culprit.pid) continue;
    std::string place = culprit.host;
    if (culprit.pid) place += (place.empty() ? "pid " : " pid ") + std::to_string(*culprit.pid);
    places.push_back(std::move(place));
  }
  constexpr std::size_t kEnough = 3;
  const std::size_t all = places.size();
  if (all > kEnough) places.resize(kEnough);
  if (places.empty()) return text;
  return text + " (" + Join(places, ", ") + (all > kEnough ? ", ..." : "") + ")";
}

std::string StateText(const CallSummary& call) {
  switch (call.state) {
    case CallState::kNotCalled: return "not called";
    case CallState::kEntered: return "inside the call";
    case CallState::kReturned: return call.mpi ? "returned" : "enqueued";
    case CallState::kStarted: return "begun on the GPU";
    case CallState::kFinished: return "finished";
    case CallState::kFailed: return "failed: " + call.result.value_or("?");
    case CallState::kNotObserved: return "not observed";
  }
  return "?";
}

// "train.cc:212 in Step", or "train+0x1234".
std::string SiteText(const CallSummary& call) {
  if (!call.source || call.source->file.empty()) return call.site_text.value_or("");
  return LineText(*call.source);
}

struct Row {
  std::string ranks, call, state, since, site;
};

std::string Table(const std::vector<CallSummary>& calls) {
  constexpr std::size_t kMostRanks = 24;
  constexpr std::size_t kMostCall = 44;
  std::vector<Row> rows = {{"RANKS", "CALL", "STATE", "SINCE", "FROM"}};
  bool several = false;
  CommunicatorNames names;
  for (const CallSummary& call : calls) {
    names.Add(call.communicator, call.label);
    several = several || call.communicator != calls.front().communicator || call.position != calls.front().position;
  }
  for (const CallSummary& call : calls) {
    Row row;
    row.ranks = Cut(RankSet(call.ranks), kMostRanks);
    row.call = call.op ? CallText(call) : "-";
    if (several) row.call += " " + names.Short(call.communicator);
    if (several && call.position != format::kNotMatched) row.call += "#" + std::to_string(call.position);
    row.call = Cut(row.call, kMostCall);
    row.state = StateText(call);
    if (call.elapsed_s) row.since = Seconds(static_cast<std::int64_t>(*call.elapsed_s * 1e9));
    row.site = SiteText(call);
    rows.push_back(std::move(row));
  }
  std::size_t widths[4] = {};
  for (const Row& row : rows) {
    const std::string* cells[4] = {&row.ranks, &row.call, &row.state, &row.since};
    for (int i = 0; i < 4; ++i) widths[i] = std::max(widths[i], cells[i]->size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line = "  " + Padded(row.ranks, widths[0]) + "  " + Padded(row.call, widths[1]) + "  " +
                       Padded(row.state, widths[2]) + "  " + Padded(row.since, widths[3]) + "  " + row.site;
    line.erase(line.find_last_not_of(' ') + 1);
    out += Printable(line) + "\n";
  }
  std::vector<std::string> payloads;
  for (const CallSummary& call : calls) {
    if (call.payload.empty()) continue;
    std::string line = "  " + CallText(call) + " = " + call.payload;
    if (std::find(payloads.begin(), payloads.end(), line) == payloads.end()) payloads.push_back(std::move(line));
  }
  for (const std::string& line : payloads) out += Printable(line) + "\n";
  return out;
}

std::string StepText(const Step& step) {
  std::string text = (step.exact ? "step " : "about step ") + std::to_string(step.number);
  if (step.call && step.calls > 1) text += ", call " + std::to_string(*step.call) + " of " + std::to_string(step.calls);
  return text + " (" + Ranks({step.rank}) + ")";
}

// "rank 2: node17, GPU 3 (GPU-5c1f..., 0000:3B:00.0), local rank 3": what to drain. Empty where the host says it all.
std::string PlaceText(const Culprit& culprit, std::size_t columns) {
  if (!culprit.gpu && culprit.node == culprit.host) return {};
  std::vector<std::string> parts;
  if (!culprit.node.empty()) parts.push_back(culprit.node);
  if (culprit.gpu) {
    const Gpu& gpu = *culprit.gpu;
    const std::string names = gpu.uuid + (gpu.pci_bus_id.empty() ? "" : ", " + gpu.pci_bus_id);
    parts.push_back(gpu.index < 0 ? names : fmt::format("GPU {} ({})", gpu.index, names));
  }
  if (culprit.local_rank) parts.push_back(fmt::format("local rank {}", *culprit.local_rank));
  return Wrapped("  ", fmt::format("rank {}: {}", culprit.rank, Join(parts, ", ")), columns);
}

std::string Places(const Finding& finding, std::size_t columns) {
  constexpr std::size_t kEnough = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(finding.culprit_details.size(), kEnough); ++i)
    out += PlaceText(finding.culprit_details[i], columns);
  return out.empty() ? out : out + "\n";
}

std::string Story(const Finding& finding, std::size_t columns) {
  std::string out = "\n" + Wrapped("  ", finding.summary, columns) + "\n" + Places(finding, columns);
  if (finding.communicator) {
    const std::string id = Hex16(finding.communicator->id), &label = finding.communicator->label;
    std::string line = "  communicator " + (label.empty() ? id : "\"" + label + "\" (" + id + ")");
    line += ", " + Plural(finding.communicator->size, "rank");
    if (!finding.communicator->members.empty()) line += ": " + RankSet(finding.communicator->members);
    if (finding.position) line += "; position " + std::to_string(*finding.position);
    if (finding.step) line += "; " + StepText(*finding.step);
    out += Wrapped("  ", line.substr(2), columns);
  }
  if (!finding.calls.empty()) out += Table(finding.calls);
  if (finding.communicator || !finding.calls.empty()) out += "\n";
  if (!finding.evidence.empty()) out += "  why\n";
  for (const std::string& line : finding.evidence) out += Wrapped("    - ", line, columns);
  if (!finding.next_steps.empty()) out += "  next\n";
  for (const std::string& line : finding.next_steps) out += Wrapped("    - ", line, columns);
  const std::vector<std::string> ignore = IgnoreLinesFor(finding);
  if (!ignore.empty()) out += "  to ignore it (NCCLWATCH_IGNORE)\n";
  for (const std::string& line : ignore) out += "    " + Printable(line) + "\n";  // whole, to be copied
  return out;
}

// "straggler (likely): rank 3 (node0 pid 4711)", after `link`.
std::string Heading(const char* link, const Finding& finding, std::size_t columns, const Palette& palette) {
  const std::string kind = link + std::string(Name(finding.kind)) + " ";
  const std::string certainty = fmt::format("({})", Name(finding.certainty));
  // Wrapping puts an end of line in the place of a blank, so each part keeps its length.
  const std::string text = Wrapped("", kind + certainty + ": " + WhoText(finding), columns);
  const std::string& colour = finding.certainty == Certainty::kCertain  ? palette.certain
                              : finding.certainty == Certainty::kLikely ? palette.likely
                                                                        : palette.suspected;
  return palette.heading + text.substr(0, kind.size()) + palette.plain + colour +
         text.substr(kind.size(), certainty.size()) + palette.plain + palette.heading +
         text.substr(kind.size() + certainty.size(), text.size() - kind.size() - certainty.size() - 1) + palette.plain +
         "\n";
}

std::string Footer(const Diagnosis& diagnosis, std::size_t columns) {
  std::string line = "job " + (diagnosis.job.empty() ? std::string("without a name") : diagnosis.job) + ", attempt " +
                     std::to_string(diagnosis.attempt) + ": " + std::to_string(diagnosis.watched) + "/" +
                     std::to_string(diagnosis.expected) +
                     (diagnosis.hosts.empty() ? " ranks told of" : " ranks watched on " + Join(diagnosis.hosts, ", "));
  if (!diagnosis.unseen_ranks.empty()) line += "; not seen: " + Ranks(diagnosis.unseen_ranks);
  if (!diagnosis.findings.empty()) line += "; judged at " + UtcTime(diagnosis.findings.front().detected_at_ns);
  std::string out = Wrapped("", line, columns);
  for (const IgnoredFindings& one : diagnosis.ignored)
    out +=
        Wrapped("note: ", Plural(static_cast<std::uint64_t>(one.findings), "known finding") + " left out: " + one.line,
                columns);
  const bool reported = diagnosis.findings.empty();  // what is missing stands in the first lines then
  for (const std::string& note : diagnosis.notes)
    if (!reported || std::find(diagnosis.missing.begin(), diagnosis.missing.end(), note) == diagnosis.missing.end())
      out += Wrapped("note: ", note, columns);
  return out;
}

}  // namespace

std::string Wrapped(std::string_view first, const std::string& raw, std::size_t columns) {
  const std::string text = Printable(raw);
  const std::string blanks(first.size(), ' ');
  std::string out(first);
  std::size_t column = first.size();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > first.size() && column + 1 + (end - at) > columns) {
      out += "\n" + blanks;
      column = blanks.size();
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out + "\n";
}

std::string ToText(const Diagnosis& diagnosis, std::size_t columns, const Palette& palette) {
  if (diagnosis.findings.empty()) {
    const char* what = diagnosis.hosts.empty() && diagnosis.processes > 0 ? "dumps" : "black boxes";
    if (diagnosis.missing.empty())
      return std::string("healthy: the ") + what + " show no problem\n" + Footer(diagnosis, columns);
    std::string out = "nothing wrong in what was recorded; what could show a fault is missing:\n";
    for (const std::string& part : diagnosis.missing) out += Wrapped("  - ", part, columns);
    return out + "\n" + Footer(diagnosis, columns);
  }
  std::string out =
      diagnosis.healthy() ? "healthy: nothing stopped or slowed the job; it leaves something behind\n\n" : "";
  for (std::size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const Finding& finding = diagnosis.findings[i];
    if (i > 0) out += "\n";
    const char* const link = i == 0 ? "" : finding.caused_by ? "and, as a consequence: " : "also: ";
    out += Heading(link, finding, columns, palette) + Story(finding, columns);
  }
  return out + "\n" + Footer(diagnosis, columns);
}

}  // namespace ncclwatch::diagnosis
