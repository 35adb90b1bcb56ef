#include "analyzer/jobs/attempts.h"

#include <absl/strings/numbers.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/console/print.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "analyzer/segments/segment_file.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "watchdog/rundir/place.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

std::uint32_t NumberOf(const std::string& directory) {
  std::error_code error;
  const std::string name = fs::weakly_canonical(directory, error).filename();
  std::uint32_t number = 0;
  return IsAttempt(name) && absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &number) ? number : 0;
}

Attempt& Numbered(std::uint32_t number, std::vector<Attempt>* all) {
  const auto place = std::lower_bound(all->begin(), all->end(), number,
                                      [](const Attempt& one, std::uint32_t wanted) { return one.number < wanted; });
  if (place != all->end() && place->number == number) return *place;
  return *all->insert(place, Attempt{.number = number, .directories = {}, .alive = false, .root = std::nullopt});
}

std::optional<diagnosis::Finding> RootOf(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories)
    if (auto verdict = ReadVerdict(directory); verdict && !verdict->diagnosis.harmless())
      return std::move(verdict->diagnosis.findings.front());
  diagnosis::Diagnosis verdict = Diagnose(ReadJob(directories, reader::Calls::kForVerdict));
  if (verdict.harmless()) return std::nullopt;
  return std::move(verdict.findings.front());
}

bool AnyBoxAlive(const std::vector<std::string>& directories) {
  return std::any_of(directories.begin(), directories.end(), [](const std::string& directory) {
    return rundir::LookAt(descriptors::Directory::Named(directory), -1).alive > 0;
  });
}

// A launcher restarts what has stopped, not what is slow.
bool HasFailed(const Attempt& attempt) {
  return attempt.root && !IsSlow(attempt.root->kind) && attempt.root->certainty != diagnosis::Certainty::kSuspected;
}

std::size_t Preferred(Prefer prefer, const std::vector<Attempt>& all) {
  const auto last = [&all](const auto& is_wanted) {
    return static_cast<std::size_t>(std::find_if(all.rbegin(), all.rend(), is_wanted).base() - all.begin());
  };
  if (prefer == Prefer::kLiving)
    if (const std::size_t end = last([](const Attempt& one) { return one.alive; }); end > 0) return end - 1;
  if (const std::size_t end = last(HasFailed); end > 0 && prefer != Prefer::kNewest) return end - 1;
  return all.size() - 1;
}

std::string NumbersText(const std::vector<int>& numbers) {
  return (numbers.size() == 1 ? "attempt " : "attempts ") + diagnosis::RankSet(numbers);
}

std::string StateText(const Attempt& attempt) {
  const std::string verdict = attempt.root ? fmt::format("{} ({})", diagnosis::Name(attempt.root->kind),
                                                         diagnosis::Name(attempt.root->certainty))
                                           : "healthy";
  return attempt.alive ? verdict + ", running" : verdict;
}

}  // namespace

bool AddAttempts(const std::string& top, Attempts* attempts) {
  bool any = false;
  for (const std::string& directory : PlaceDirectories(top)) {
    const fs::path path = directory;
    if (directory != top && (path.parent_path() != top || !IsAttempt(path.filename().native()))) continue;
    if (BoxFiles(directory).empty() && SegmentFiles(directory).empty()) continue;
    Numbered(NumberOf(directory), &attempts->all).directories.push_back(directory);
    any = true;
  }
  return any;
}

absl::Status Choose(const AttemptChoice& choice, Attempts* attempts) {
  std::vector<Attempt>& all = attempts->all;
  attempts->asked = choice.number.has_value();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Attempt& one) { return one.number == choice.number; });
  if (choice.number && all.empty()) return absl::NotFoundError("--attempt needs a run directory or a recording");
  if (choice.number && found == all.end()) {
    std::vector<int> numbers;
    for (const Attempt& one : all) numbers.push_back(static_cast<int>(one.number));
    return absl::NotFoundError(fmt::format("there is no attempt {}, only {}", *choice.number, NumbersText(numbers)));
  }
  if (all.empty()) return absl::OkStatus();
  if (attempts->several() && choice.prefer != Prefer::kNewest)
    for (Attempt& one : all) {
      one.alive = AnyBoxAlive(one.directories);
      one.root = RootOf(one.directories);
    }
  attempts->shown = choice.number ? static_cast<std::size_t>(found - all.begin()) : Preferred(choice.prefer, all);
  return absl::OkStatus();
}

Attempts AsDiagnosed(const diagnosis::Diagnosis& shown, Attempts attempts) {
  if (attempts.several())
    attempts.all[attempts.shown].root = shown.harmless() ? std::nullopt : std::optional(shown.findings.front());
  return attempts;
}

std::string WhichAttempt(const Attempts& attempts) {
  if (!attempts.several() || attempts.asked) return {};
  const Attempt& shown = attempts.all[attempts.shown];
  std::vector<std::pair<std::string, std::vector<int>>> others;  // alike, and one after another
  for (const Attempt& one : attempts.all) {
    if (&one == &shown) continue;
    if (others.empty() || others.back().first != StateText(one)) others.push_back({StateText(one), {}});
    others.back().second.push_back(static_cast<int>(one.number));
  }
  std::string text = fmt::format("attempt {} of {}: {}", shown.number, attempts.all.size(), StateText(shown));
  for (const auto& [state, numbers] : others) text += fmt::format("; {}: {}", NumbersText(numbers), state);
  if (attempts.all.size() > 2) return text + "; --attempt N shows another one";
  return text + fmt::format("; --attempt {} shows it", others.front().second.front());
}

void SayWhichAttempt(const Attempts& attempts) {
  if (const std::string text = WhichAttempt(attempts); !text.empty()) Complain("", "{}", text);
}

nlohmann::ordered_json ToJson(const Attempts& attempts) {
  auto rows = nlohmann::ordered_json::array();
  if (!attempts.several()) return rows;
  for (std::size_t i = 0; i < attempts.all.size(); ++i) {
    const Attempt& one = attempts.all[i];
    using Json = nlohmann::ordered_json;
    rows.push_back({{"attempt", one.number},
                    {"shown", i == attempts.shown},
                    {"alive", one.alive},
                    {"kind", one.root ? Json(diagnosis::Name(one.root->kind)) : Json()},
                    {"certainty", one.root ? Json(diagnosis::Name(one.root->certainty)) : Json()},
                    {"directory", Printable(one.directories.front())}});
  }
  return rows;
}

}  // namespace ncclwatch::analyzer
