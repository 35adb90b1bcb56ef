#include "analyzer/run/epilogue.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "analyzer/console/terminal.h"
#include "analyzer/jobs/judge.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "watchdog/act/files.h"

namespace ncclwatch::analyzer {
namespace {

using diagnosis::Certainty;

// A job that ended well was not stalled by what is no more than suspected.
bool IsFault(const diagnosis::Diagnosis& verdict, int status) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const diagnosis::Finding& finding) {
    return status != 0 || finding.certainty != Certainty::kSuspected;
  });
}

void PointTo(const Verdict& verdict) {
  std::fprintf(stderr, "[ncclwatch] diagnosis: %s (%s): %s\n", Printable(verdict.kind).c_str(),
               Printable(verdict.certainty).c_str(), Printable(verdict.path).c_str());
}

void Keep(const std::string& directory, const std::string& json, const std::string& text) {
  std::string error = act::WriteFile(directory + "/" + kDiagnosisJson, json);
  if (error.empty()) error = act::WriteFile(directory + "/" + kDiagnosisText, text);
  if (!error.empty()) std::fprintf(stderr, "[ncclwatch] cannot keep the diagnosis: %s\n", Printable(error).c_str());
}

void ConcludeOne(const std::string& directory, Deaths* deaths, int status, bool say, Epilogue* epilogue) {
  if (const auto verdict = ReadVerdict(directory); verdict && !verdict->healthy) {
    if (say) PointTo(*verdict);
    epilogue->fault = true;
    epilogue->json = verdict->text;
    return;
  }
  const diagnosis::Diagnosis verdict = JudgeWith(ReadAll({directory}), deaths->Observations());
  const std::string json = diagnosis::ToJson(verdict);
  if (!epilogue->fault) epilogue->json = json;
  if (!IsFault(verdict, status)) return;
  epilogue->fault = true;
  epilogue->json = json;
  const std::string text = diagnosis::ToText(verdict);
  Keep(directory, json, text);
  if (!say) return;
  std::fputs(ColourDiagnosis(text, MayColour(STDERR_FILENO)).c_str(), stderr);
  std::fprintf(stderr, "[ncclwatch] diagnosis: %s/%s\n", Printable(directory).c_str(), kDiagnosisJson);
}

}  // namespace

Epilogue Conclude(Deaths* deaths, int status, bool say) {
  Epilogue epilogue;
  for (const std::string& directory : deaths->directories()) {
    epilogue.watched = true;
    ConcludeOne(directory, deaths, status, say, &epilogue);
  }
  if (!epilogue.watched) epilogue.json = diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes({})));
  return epilogue;
}

}  // namespace ncclwatch::analyzer
