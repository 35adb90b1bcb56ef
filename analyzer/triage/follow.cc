#include "analyzer/triage/follow.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/triage/read_logs.h"
#include "analyzer/triage/stamp.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

fs::file_time_type ChangedAt(const LogFile& file) {
  std::error_code gone;
  return fs::last_write_time(file.path, gone);
}

absl::Time ToTime(fs::file_time_type time) {
  return absl::FromChrono(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(time)));
}

std::uint64_t LastProgress(const Stream& stream) {
  for (auto line = stream.tail.rbegin(); line != stream.tail.rend(); ++line)
    if (line->kind == TailLine::Kind::kProgress) return line->line;
  return 0;
}

bool SaysDone(const std::vector<Rule>& rules, const ScannedFile& file, std::size_t stream, std::uint64_t after) {
  return std::any_of(file.matches.begin(), file.matches.end(), [&](const Match& match) {
    return match.stream == stream && match.line > after && rules[match.rule].role == Role::kSuccess;
  });
}

// Whoever worked said afterwards that all is done.
bool AllSayDone(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) {
  bool worked = false;
  for (const ScannedFile& file : files) {
    for (std::size_t i = 0; i < file.streams.size(); ++i) {
      const std::uint64_t last = LastProgress(file.streams[i]);
      if (last == 0) continue;
      worked = true;
      if (!SaysDone(rules, file, i, last)) return false;
    }
  }
  return worked;
}

// Between lines of progress of one process, by their time stamps.
absl::Duration MiddleGap(const Stream& stream) {
  const int year = absl::ToCivilYear(absl::Now(), absl::UTCTimeZone()).year();
  std::vector<absl::Duration> gaps;
  std::optional<absl::Time> before;
  for (const TailLine& line : stream.tail) {
    if (line.kind != TailLine::Kind::kProgress) continue;
    const auto at = ParseStamp(line.text, year);
    if (before && at) gaps.push_back(*at - *before);
    before = at;
  }
  if (gaps.empty()) return absl::ZeroDuration();
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

// For how long logs that show no failure may be silent before that counts: a checkpoint takes longer than a step.
absl::Duration SilenceOf(const std::vector<ScannedFile>& files, absl::Duration longest, absl::Duration settle) {
  constexpr int kSettles = 6, kGaps = 10, kLongest = 2;
  absl::Duration silence = std::max(kSettles * settle, kLongest * longest);
  for (const ScannedFile& file : files)
    for (const Stream& stream : file.streams) silence = std::max(silence, kGaps * MiddleGap(stream));
  return silence;
}

// What the logs said at a look, and since when they have said no more.
class Followed {
 public:
  Followed(const Matcher& matcher, const FollowOptions& options) : matcher_(matcher), options_(options) {}

  void See(std::vector<ScannedFile> files, absl::Time last_change);
  void SeeNoChange() { looks_ += 1; }
  bool IsOver();
  Triage Take() { return std::move(triage_); }

 private:
  bool IsSameFailure(const Triage& other) const;
  void Report();

  const Matcher& matcher_;
  const FollowOptions& options_;
  Triage triage_;
  bool seen_ = false, fell_silent_ = false, failed_ = false, done_ = false, reported_ = false, empty_ = true;
  int looks_ = 0;  // that saw the same failure
  absl::Time quiet_since_ = absl::InfinitePast();
  absl::Duration longest_, silence_;  // longest_: silence so far after which the logs went on
};

bool Followed::IsSameFailure(const Triage& other) const {
  if (triage_.causes.empty() || other.causes.empty()) return triage_.causes.empty() == other.causes.empty();
  const Match &mine = triage_.causes.front().first, &its = other.causes.front().first;
  return mine.file == its.file && mine.line == its.line;
}

void Followed::See(std::vector<ScannedFile> files, absl::Time last_change) {
  // Files of a job that ended before tell when that was; later on only this clock counts.
  const absl::Time now = absl::Now();
  if (seen_) longest_ = std::max(longest_, now - quiet_since_);
  quiet_since_ = seen_ ? now : std::min(now, last_change);
  silence_ = SilenceOf(files, longest_, options_.settle);
  done_ = AllSayDone(matcher_.rules(), files);
  Triage triage = Judge(matcher_.rules(), std::move(files), options_.baseline);
  done_ = done_ || triage.succeeded;
  fell_silent_ = triage.fell_silent;
  empty_ = triage.bytes == 0;
  failed_ = IsFailure(triage) && !fell_silent_;
  looks_ = seen_ && IsSameFailure(triage) ? looks_ + 1 : 1;
  seen_ = true;
  triage_ = std::move(triage);
}

void Followed::Report() {
  if (!reported_) options_.report(triage_);
  reported_ = true;
}

bool Followed::IsOver() {
  constexpr int kLooks = 2;      // an exception may be caught by the next line
  constexpr int kSilences = 10;  // of a job that may not have begun, or ended without a word
  const absl::Duration quiet = absl::Now() - quiet_since_;
  if (!failed_) reported_ = false;
  if (failed_ && looks_ >= kLooks) Report();
  if (failed_) return reported_ && quiet >= (triage_.confirmations.empty() ? options_.settle : options_.look);
  if (done_) return quiet >= options_.look;
  if (fell_silent_ && quiet >= silence_) {
    Report();
    return true;
  }
  return !empty_ && !fell_silent_ && quiet >= kSilences * silence_;
}

// A scan of large files may take longer than the time between two looks.
void SleepUntilNextLook(absl::Duration scan, const FollowOptions& options) {
  constexpr absl::Duration kNap = absl::Milliseconds(100);
  const absl::Time until = absl::Now() + std::max(options.look, scan);
  for (absl::Time now = absl::Now(); now < until && !options.stopped(); now = absl::Now())
    absl::SleepFor(std::min(kNap, until - now));
}

}  // namespace

bool GrowingLogs::IsCurrent(const LogFile& file, fs::file_time_type changed) const {
  const auto known = known_.find(file.path);
  if (known == known_.end()) return false;
  const LogFile& as = known->second.file;
  return known->second.changed == changed && as.bytes == file.bytes && as.rank == file.rank &&
         as.is_local == file.is_local && as.host == file.host;
}

absl::StatusOr<bool> GrowingLogs::Refresh() {
  const auto found = FindLogs(paths_);
  if (!found.ok()) return found.status();
  std::vector<LogFile> changed;
  std::vector<fs::file_time_type> times;
  std::set<std::string> paths;
  for (const LogFile& file : *found) {
    paths.insert(file.path);
    const fs::file_time_type time = ChangedAt(file);
    if (IsCurrent(file, time)) continue;
    changed.push_back(file);
    times.push_back(time);
  }
  const std::size_t gone = std::erase_if(known_, [&](const auto& row) { return !paths.contains(row.first); });
  std::vector<ScannedFile> scanned = ScanLogs(matcher_, changed, nullptr);
  for (std::size_t i = 0; i < changed.size(); ++i)
    known_.insert_or_assign(changed[i].path, Known{times[i], std::move(scanned[i]), changed[i]});
  return gone > 0 || !changed.empty();
}

std::vector<ScannedFile> GrowingLogs::files() const {
  std::vector<ScannedFile> files;
  files.reserve(known_.size());
  for (const auto& [path, known] : known_) files.push_back(known.scanned);
  return files;
}

absl::Time GrowingLogs::last_change() const {
  absl::Time last = absl::InfinitePast();
  for (const auto& [path, known] : known_) last = std::max(last, ToTime(known.changed));
  return last;
}

bool IsFailure(const Triage& triage) {
  return triage.unknown || (!triage.causes.empty() && triage.causes.front().confidence != Confidence::kSuspected);
}

absl::StatusOr<Triage> FollowLogs(const Matcher& matcher, const std::vector<std::string>& paths,
                                  const FollowOptions& options) {
  GrowingLogs logs(matcher, paths);
  Followed followed(matcher, options);
  while (true) {
    const bool last = options.stopped();
    const absl::Time begin = absl::Now();
    const auto changed = logs.Refresh();
    if (!changed.ok()) return changed.status();
    if (*changed)
      followed.See(logs.files(), logs.last_change());
    else
      followed.SeeNoChange();
    if (followed.IsOver() || last) return followed.Take();
    SleepUntilNextLook(absl::Now() - begin, options);
  }
}

}  // namespace ncclwatch::analyzer
