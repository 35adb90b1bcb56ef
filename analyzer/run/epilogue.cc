#include "analyzer/run/epilogue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "analyzer/console/terminal.h"
#include "analyzer/jobs/judge.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "analyzer/run/complete.h"
#include "watchdog/act/dump.h"
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

void SayAdded(const Completed& completed) {
  if (completed.added.empty()) return;
  std::fputs("[ncclwatch] completed after the job:\n", stderr);
  for (const std::string& line : completed.added) std::fprintf(stderr, "[ncclwatch]   - %s\n", Printable(line).c_str());
}

void Keep(const std::string& directory, const std::string& json, const std::string& text) {
  std::string error = act::WriteFile(directory + "/" + kDiagnosisJson, json);
  if (error.empty()) error = act::WriteFile(directory + "/" + kDiagnosisText, text);
  if (!error.empty()) std::fprintf(stderr, "[ncclwatch] cannot keep the diagnosis: %s\n", Printable(error).c_str());
}

// A copy that a leader began may be half done: its process was ended with the others.
void SaveEvidence(const std::string& directory, const reader::RunImage& run, const settings::Settings& settings) {
  if (settings.out.empty() || settings.on_fault == settings::OnFault::kReport || run.boxes.empty()) return;
  const reader::BoxImage& box = run.boxes.front();
  act::Dump dump;
  dump.directory = directory;
  dump.out = settings.out + "/" + box.job + (box.attempt > 0 ? "/attempt-" + std::to_string(box.attempt) : "");
  dump.boxes = BoxFiles(directory);
  dump.complain = [](const std::string& line) { std::fprintf(stderr, "[ncclwatch] %s\n", Printable(line).c_str()); };
  act::Save(dump);
}

// Like a leader's: started and left alone, the diagnosis on its standard input.
void StartHook(const std::string& command, const std::string& input) {
  if (command.empty()) return;
  const pid_t pid = fork();
  if (pid != 0) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  const int fd = open(input.c_str(), O_RDONLY);
  if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) _exit(126);
  close(fd);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

void Say(const std::string& directory, const std::string& text) {
  std::fputs(ColourDiagnosis(text, MayColour(STDERR_FILENO)).c_str(), stderr);
  std::fprintf(stderr, "[ncclwatch] diagnosis: %s/%s\n", Printable(directory).c_str(), kDiagnosisJson);
}

bool IsFault(const Verdict& verdict, int status) {
  return !verdict.healthy && (status != 0 || verdict.certainty != diagnosis::Name(Certainty::kSuspected));
}

void ConcludeOne(const std::string& directory, Deaths* deaths, int status, const settings::Settings& settings,
                 Epilogue* epilogue) {
  const bool say = settings.log != settings::LogLevel::kOff;
  const reader::RunImage run = ReadJob({directory}, reader::Calls::kForVerdict);
  if (const auto verdict = ReadVerdict(directory); verdict && IsFault(*verdict, status)) {
    const Completed completed = Complete(directory, *verdict, run);
    if (!completed.json.empty()) Keep(directory, completed.json, completed.text);
    if (say) PointTo(*verdict);
    if (say) SayAdded(completed);
    epilogue->fault = true;
    epilogue->json = completed.json.empty() ? verdict->text : completed.json;
    SaveEvidence(directory, run, settings);
    return;
  }
  const diagnosis::Diagnosis verdict = JudgeWith(run, deaths->Observations());
  const std::string json = diagnosis::ToJson(verdict);
  const bool fault = IsFault(verdict, status);
  if (!epilogue->fault || fault) epilogue->json = json;
  if (!fault) return;
  epilogue->fault = true;
  const std::string text = diagnosis::ToText(verdict);
  Keep(directory, json, text);
  if (say) Say(directory, text);
  SaveEvidence(directory, run, settings);
  StartHook(settings.hook, directory + "/" + kDiagnosisJson);
}

}  // namespace

Epilogue Conclude(Deaths* deaths, int status, const settings::Settings& settings) {
  Epilogue epilogue;
  for (const std::string& directory : deaths->directories()) {
    epilogue.watched = true;
    const LeaseFile lease(directory);
    epilogue.ended_by_us |= lease.reason().empty() && lease->ending.load(std::memory_order_acquire) != 0;
    ConcludeOne(directory, deaths, status, settings, &epilogue);
  }
  if (!epilogue.watched) epilogue.json = diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes({})));
  return epilogue;
}

}  // namespace ncclwatch::analyzer
