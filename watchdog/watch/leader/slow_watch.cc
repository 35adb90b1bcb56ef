#include "watchdog/watch/leader/slow_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "watchdog/act/files.h"
#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/json_writer.h"
#include "watchdog/diagnosis/report/render.h"
#include "watchdog/diagnosis/slow/find.h"
#include "watchdog/evidence/topology_file.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kEvery_ns = 5'000'000'000;
constexpr std::int64_t kCostShare = 500;                // of the time at most 1 in 500 goes into looks
constexpr std::int64_t kLineEvery_ns = 60'000'000'000;  // on stderr
constexpr char kEvents[] = "events.jsonl";

std::string SignatureOf(const std::vector<diagnosis::Finding>& findings) {
  if (findings.empty()) return {};
  const diagnosis::Finding& first = findings.front();
  return fmt::format("{} ({})", diagnosis::Name(first.kind), diagnosis::Ranks(first.culprits));
}

// Empty, or why not.
std::string Append(const descriptors::Directory& directory, const std::string& line) {
  if (!directory) return directory.reason();
  const int fd = directory.Open(kEvents, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) return fmt::format("{}: {}", directory.PathOf(kEvents), std::strerror(errno));
  const bool whole = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  close(fd);
  return whole ? std::string() : fmt::format("{}: {}", directory.PathOf(kEvents), std::strerror(error));
}

}  // namespace

void SlowWatch::Look(std::int64_t now_ns, const diagnosis::Snapshot& snapshot) {
  ReadTopologyOnce();
  const std::vector<diagnosis::Finding> findings = diagnosis::FindSlow(snapshot, context_of_job_);
  next_ns_ = now_ns + std::max(kEvery_ns, kCostShare * (Monotonic() - now_ns));
  const std::string signature = SignatureOf(findings);
  // Twice the same: what lasts for one look only is nobody's matter.
  if (signature == std::exchange(seen_, signature) && signature != told_) Tell(findings, now_ns);
}

void SlowWatch::ReadTopologyOnce() {
  const std::string& path = context_.settings.topology;
  if (path.empty() || std::exchange(topology_read_, true)) return;
  std::string wrong;
  context_of_job_.topology = evidence::ReadTopology(path, &wrong);
  if (!wrong.empty()) log::Warn("NCCLWATCH_TOPOLOGY: {}", wrong);
}

void SlowWatch::Tell(const std::vector<diagnosis::Finding>& findings, std::int64_t now_ns) {
  if (told_ns_ != 0 && now_ns - told_ns_ < kLineEvery_ns) return;
  told_ns_ = now_ns;
  const std::string before = std::exchange(told_, seen_);
  if (findings.empty()) return log::Warn("over: {}", before);
  for (const diagnosis::Finding& finding : findings) {
    log::Warn("{} ({}): {}", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty), finding.summary);
    WriteEvent(finding);
  }
}

void SlowWatch::WriteEvent(const diagnosis::Finding& finding) {
  const format::Identity& identity = context_.own->identity;
  diagnosis::JsonWriter json(diagnosis::JsonWriter::Layout::kOneLine);
  json.BeginObject().Key("timestamp").String(diagnosis::UtcTime(finding.detected_at_ns));
  json.Key("event_type").String(diagnosis::Name(finding.kind)).Key("step");
  finding.onset ? json.Unsigned(finding.onset->step) : json.Null();
  json.Key("rank");
  finding.culprits.empty() ? json.Null() : json.Integer(finding.culprits.front());
  json.Key("host").String(finding.culprit_details.empty() ? identity.host : finding.culprit_details.front().host);
  json.Key("job").String(identity.job).Key("details");
  std::string line = json.Raw(diagnosis::ToJsonLine(finding)).EndObject().Take();
  std::string why = Append(context_.directory, line);
  if (why.empty() && !context_.settings.out.empty()) {
    std::string out = context_.settings.out + "/" + identity.job;
    if (identity.attempt > 0) out += fmt::format("/attempt-{}", identity.attempt);
    why = act::MakeDirectories(out);
    if (why.empty()) why = Append(descriptors::Directory::Own(out), line);
  }
  if (!why.empty() && !std::exchange(said_no_events_, true)) log::Error("an event could not be written: {}", why);
}

}  // namespace ncclwatch::watch
