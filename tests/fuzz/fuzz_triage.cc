// Rules of a user, and a log that they and the project's own rules are searched in: the text of TOML, then the log,
// plain or compressed.
#include <nlohmann/json.hpp>

#include "analyzer/triage/print.h"
#include "analyzer/triage/read_logs.h"
#include "tests/fuzz/scratch_file.h"

using namespace ncclwatch;
using testing::Require;

namespace {

void Search(const analyzer::Matcher& matcher, std::string_view log) {
  analyzer::LogFile file{
      .path = testing::WriteScratch("rank0.log", log), .rank = 0, .is_local = false, .host = "", .bytes = log.size()};
  constexpr int kYear = 2026;
  std::atomic<std::uint64_t> read{0};
  const analyzer::ScannedFile scanned = ScanLog(matcher, file, kYear, &read);
  for (const analyzer::Match& match : scanned.matches)
    Require(match.rule < matcher.rules().size() && match.line > 0 && match.times > 0);
  const analyzer::Triage triage = analyzer::Judge(matcher.rules(), {scanned, scanned});
  for (const analyzer::TriageFinding& cause : triage.causes) Require(cause.rule && cause.lines > 0);
  analyzer::TriageText(triage);
  analyzer::TriageJson(triage).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const analyzer::Matcher own = *analyzer::MakeMatcher({});
  const auto [text, log] = testing::Halves(data, size);
  Search(own, log);
  auto rules = analyzer::ParseRules(text, "rules");
  if (!rules.ok() || rules->empty()) return 0;
  const auto matcher = analyzer::Matcher::Make(*std::move(rules));
  if (matcher.ok()) Search(*matcher, log);
  return 0;
}
