#include "tests/jobs/judge.h"

#include <algorithm>

#include "watchdog/reader/box.h"

namespace ncclwatch::jobs {
namespace {

using diagnosis::Certainty;
using diagnosis::Finding;

std::string Describe(const Finding& finding) {
  std::string text = std::string(diagnosis::Name(finding.kind)) + " [";
  for (std::size_t i = 0; i < finding.culprits.size(); ++i) {
    if (i == 6) return text + ", ...] " + std::string(diagnosis::Name(finding.certainty));
    text += (i > 0 ? ", " : "") + std::to_string(finding.culprits[i]);
  }
  return text + "] " + std::string(diagnosis::Name(finding.certainty));
}

bool IsRight(const Truth& truth, const Finding& finding) {
  return IsRight(truth, std::string(diagnosis::Name(finding.kind)), finding.culprits);
}

}  // namespace

diagnosis::Diagnosis Diagnose(const Generated& made) {
  std::vector<reader::BoxImage> images;
  for (int rank = 0; rank < made.job.shape.ranks; ++rank) {
    if (!HasBox(made, rank)) continue;
    const std::unique_ptr<BoxMemory> box = MakeBox(made, rank);
    images.push_back(reader::MappedBox::Borrow(box->header(), BoxName(made, rank))->Image());
  }
  return diagnosis::Diagnose(diagnosis::FromBoxes(std::move(images)));
}

Judged Compare(const Truth& truth, const diagnosis::Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) return {truth.silence ? Verdict::kRight : Verdict::kSilent, "nothing"};
  const Finding& first = diagnosis.findings.front();
  const bool wrong_proof =
      std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const Finding& finding) {
        return finding.certainty == Certainty::kCertain && !finding.caused_by && !IsRight(truth, finding);
      });
  Judged judged{Verdict::kRight, Describe(first)};
  if (wrong_proof) {
    judged.verdict = Verdict::kWrongCertain;
  } else if (!IsRight(truth, first)) {
    judged.verdict = Verdict::kWrong;
  } else if (first.certainty == Certainty::kCertain && !truth.may_be_certain) {
    judged.verdict = Verdict::kOverCertain;
  }
  return judged;
}

}  // namespace ncclwatch::jobs
