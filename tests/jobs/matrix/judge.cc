#include "tests/jobs/matrix/judge.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/view/from_boxes.h"

namespace ncclwatch::jobs {
namespace {

using diagnosis::Certainty;
using diagnosis::Finding;

std::string Describe(const Finding& finding) {
  constexpr std::size_t kMost = 6;
  const auto& all = finding.culprits;
  const std::vector<int> shown(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMost)));
  return fmt::format("{} [{}{}] {}", diagnosis::Name(finding.kind), absl::StrJoin(shown, ", "),
                     all.size() > kMost ? ", ..." : "", diagnosis::Name(finding.certainty));
}

Match MatchOf(const Truth& truth, const Finding& finding, bool partly) {
  const std::string kind(diagnosis::Name(finding.kind));
  return partly ? PartMatchOf(truth, kind, finding.culprits) : MatchOf(truth, kind, finding.culprits);
}

}  // namespace

diagnosis::Snapshot SnapshotOf(const Generated& made) {
  std::vector<reader::BoxImage> images;
  for (int rank = 0; rank < made.job.shape.ranks; ++rank) {
    if (!HasBox(made, rank)) continue;
    const std::unique_ptr<BoxMemory> box = MakeBox(made, rank);
    images.push_back(reader::MappedBox::Borrow(box->header(), BoxName(made, rank))->Image());
  }
  return diagnosis::FromBoxes(std::move(images));
}

diagnosis::Diagnosis Diagnose(const Generated& made) { return diagnosis::Diagnose(SnapshotOf(made)); }

Judged Compare(const Truth& truth, const diagnosis::Diagnosis& diagnosis, bool partly) {
  if (diagnosis.findings.empty()) return {truth.silence ? Verdict::kRight : Verdict::kSilent, "nothing"};
  const Finding& first = diagnosis.findings.front();
  Judged judged{MatchOf(truth, first, partly) == Match::kNone ? Verdict::kWrong : Verdict::kRight, Describe(first)};
  for (const Finding& finding : diagnosis.findings) {
    if (finding.certainty != Certainty::kCertain || finding.caused_by) continue;
    const Match match = MatchOf(truth, finding, partly);
    if (match == Match::kNone) judged.verdict = Verdict::kWrongCertain;
    if (match == Match::kNotCertainly && judged.verdict == Verdict::kRight) judged.verdict = Verdict::kOverCertain;
  }
  return judged;
}

const char* NameOf(Verdict verdict) {
  constexpr const char* kNames[] = {"right", "silent", "wrong", "over-certain", "WRONG AND CERTAIN"};
  return kNames[static_cast<int>(verdict)];
}

int Tally::all() const { return std::accumulate(std::begin(count), std::end(count), 0); }

double Tally::right_percent() const { return all() == 0 ? 100 : 100.0 * of(Verdict::kRight) / all(); }

void Tally::Add(const Tally& other) {
  for (int i = 0; i < kVerdicts; ++i) count[i] += other.count[i];
}

void PrintHead(const char* what) {
  std::printf("%-28s %7s %7s %7s %7s %7s %7s  %8s\n", what, "jobs", "right", "silent", "wrong", "over", "certain",
              "right");
}

void PrintRow(const std::string& name, const Tally& tally) {
  std::printf("%-28s %7d %7d %7d %7d %7d %7d  %6.2f %%\n", name.c_str(), tally.all(), tally.of(Verdict::kRight),
              tally.of(Verdict::kSilent), tally.of(Verdict::kWrong), tally.of(Verdict::kOverCertain),
              tally.of(Verdict::kWrongCertain), tally.right_percent());
}

void PrintMiss(const Generated& made, const Shape& shape, const Judged& judged) {
  std::printf("%s: %s --out DIR\n    said %s; %s\n", NameOf(judged.verdict), CommandOf(shape).c_str(),
              judged.said.c_str(), made.truth.story.c_str());
  std::fflush(stdout);
}

}  // namespace ncclwatch::jobs
