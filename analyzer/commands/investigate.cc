// `ncclwatch investigate`: from the files of a job to the incident report.
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"
#include "analyzer/investigate/markdown.h"
#include "analyzer/investigate/material.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kInvestigateHelp[] =
    "Walk from the files of a job to its incident report: triage, localise, isolate, find the cause, resolve.\n\n"
    "Run directories, recordings, logs and events.jsonl may be given together. The report says what happened, when, "
    "to\n"
    "whom; the steps from the symptom to the cause as far as they were measured, each with its evidence, and the "
    "command\n"
    "that would look further; which hypotheses are supported, ruled out or untested, and by what; what it has cost, "
    "and\n"
    "what to do now and for good.\n\n"
    "Exit status: 0 nothing failed, 1 an incident, 2 usage, 3 an input could not be read.";

}  // namespace

int InvestigateJob(const Command& self, const Arguments& arguments) {
  Options options(self, kInvestigateHelp);
  std::vector<std::string> words;
  std::string into;
  AttemptChoice choice;
  bool json = false;
  options.add_option("DIR|LOGS", words, "run directories, recordings, logs and folders of them")->type_name("");
  options.add_option("-o", into, "write the report to this file instead of standard output")->type_name("FILE");
  DeclareAttempt(&options, &choice);
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  if (words.empty()) words.emplace_back("latest");
  const auto material = investigate::Gather(words, choice);
  if (!material.ok()) return Unreadable(self, material.status());
  const investigate::Incident incident = investigate::Investigate(*material);
  const std::string text = ToMarkdown(incident);
  if (into == kStandardStream) into.clear();
  if (!into.empty())
    if (const absl::Status written = WriteFile(into, text); !written.ok()) return Unreadable(self, written);
  if (json)
    PrintJson(ToJson(incident));
  else if (into.empty())
    WriteOut(text);
  else
    Print("{}: {}\n{}\n", into, incident.title, incident.summary);
  return incident.kind == investigate::Class::kHealthy ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
