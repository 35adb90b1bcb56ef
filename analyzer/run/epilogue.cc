#include "analyzer/run/epilogue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "analyzer/console/print.h"
#include "analyzer/console/terminal.h"
#include "analyzer/files/input_file.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/jobs/verdict.h"
#include "core/diagnose.h"
#include "core/model/text.h"
#include "core/reader/box.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "watchdog/act/dump.h"
#include "watchdog/act/files.h"
#include "watchdog/act/hook.h"
#include "watchdog/act/program.h"
#include "watchdog/act/system_log.h"

namespace ncclwatch::analyzer {
namespace {

using diagnosis::Certainty;

// A leader's verdict after the job: what its launcher did not leave it the time to write is added, by the same function
// over the same black boxes, and from stacks that were still being taken when it was ended.

struct Completed {
  std::string json, text;          // of the diagnosis as it is now; empty if there was nothing to add
  std::vector<std::string> added;  // what its evidence did not say before, a line each
};

// The leader's stacks are final. Without them those of the culprits count that were read after the verdict.
void AddStacks(const std::string& directory, const diagnosis::Diagnosis& verdict, reader::RunImage* run) {
  const std::int64_t at_ns = diagnosis::FromBoxes(run->boxes).now_ns;
  const bool known = std::any_of(run->stacks.begin(), run->stacks.end(),
                                 [at_ns](const reader::VerdictStacks& one) { return one.verdict_at_ns == at_ns; });
  if (known || at_ns == 0) return;
  const auto place = descriptors::Directory::Own(directory);
  reader::VerdictStacks late{.verdict_at_ns = at_ns, .processes = {}};
  for (const diagnosis::Finding& finding : verdict.findings)
    for (const diagnosis::Culprit& culprit : finding.culprit_details) {
      if (!culprit.pid) continue;
      std::optional<reader::ProcessStacks> process = reader::ReadProcessStacks(place, *culprit.pid);
      if (process && process->start_time == culprit.start_time && process->at_ns >= at_ns)
        late.processes.push_back(std::move(*process));
    }
  if (late.processes.empty()) return;
  if (!act::WriteFile(place, reader::kVerdictStacksFile, reader::Format(late)).empty()) return;
  run->stacks.push_back(std::move(late));
}

bool SameVerdict(const diagnosis::Diagnosis& a, const diagnosis::Diagnosis& b) {
  return !a.clean() && !b.clean() && a.findings[0].kind == b.findings[0].kind &&
         a.findings[0].culprits == b.findings[0].culprits && a.watched == b.watched && a.expected == b.expected &&
         a.unseen_ranks == b.unseen_ranks;
}

// Where the calls of the first finding come from. A leader tells lines of Python, else modules and offsets only.
std::vector<std::string> CallLines(const diagnosis::Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  if (diagnosis.findings.empty()) return lines;
  for (const diagnosis::CallSummary& call : diagnosis.findings.front().calls) {
    if (!call.op || !call.source || call.source->file.empty()) continue;
    lines.push_back(
        fmt::format("{}: {} at {}", diagnosis::Ranks(call.ranks), *call.op, diagnosis::LineText(*call.source)));
  }
  return lines;
}

// Writes which stacks belong to the verdict (reader::VerdictStacks) if the leader did not; the diagnosis itself is the
// caller's to write. A verdict that cannot be derived from these boxes alone, since its leader saw more, stays as it
// is.
Completed Complete(const std::string& directory, const Verdict& verdict, reader::RunImage run) {
  Completed completed;
  const bool judged = std::any_of(run.boxes.begin(), run.boxes.end(),
                                  [](const reader::BoxImage& box) { return box.leader_state.verdict_at_ns != 0; });
  if (!judged) return completed;
  AddStacks(directory, Diagnose(run), &run);
  SiteLines lines(run.boxes);
  diagnosis::Diagnosis again = Diagnose(run);
  const std::vector<std::string> known = CallLines(again);
  NameAndIgnore("run", &lines, &again);
  const diagnosis::Diagnosis& before = verdict.diagnosis;
  if (!SameVerdict(before, again)) return completed;
  const std::vector<std::string>& said = before.findings[0].evidence;
  for (const std::string& line : again.findings[0].evidence)
    if (std::find(said.begin(), said.end(), line) == said.end()) completed.added.push_back(line);
  for (std::string& line : CallLines(again))
    if (std::find(known.begin(), known.end(), line) == known.end()) completed.added.push_back(std::move(line));
  if (completed.added.empty()) return completed;
  completed.json = diagnosis::ToJson(again);
  completed.text = diagnosis::ToText(lines.ForPeople(again));
  return completed;
}

// A job that ended well was not stalled by what is no more than suspected, and leaks harm none.
bool IsFault(const diagnosis::Diagnosis& verdict, int status) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const diagnosis::Finding& finding) {
    return !IsHarmless(finding.kind) && (status != 0 || finding.certainty != Certainty::kSuspected);
  });
}

void PointTo(const Verdict& verdict) {
  const diagnosis::Finding& first = verdict.diagnosis.findings.front();
  Note("diagnosis: {} ({}): {}", diagnosis::Name(first.kind), diagnosis::Name(first.certainty), verdict.path);
}

void SayAdded(const Completed& completed) {
  if (completed.added.empty()) return;
  Note("completed after the job:");
  for (const std::string& line : completed.added) Note("  - {}", line);
}

void Keep(const std::string& directory, const std::string& as_json, const std::string& text) {
  const auto place = descriptors::Directory::Own(directory);
  std::string error = act::WriteFile(place, kDiagnosisJson, as_json);
  if (error.empty()) error = act::WriteFile(place, kDiagnosisText, text);
  if (!error.empty()) Note("cannot keep the diagnosis: {}", error);
}

// A copy that a leader began may be half done: its process was ended with the others.
void SaveEvidence(const std::string& directory, const reader::RunImage& run, const settings::Settings& settings) {
  if (settings.out.empty() || settings.on_fault == settings::OnFault::kReport || run.boxes.empty()) return;
  const reader::BoxImage& box = run.boxes.front();
  act::Dump dump;
  dump.directory = descriptors::Directory::Own(directory);
  dump.out = settings.out + "/" + box.job + (box.attempt > 0 ? fmt::format("/attempt-{}", box.attempt) : "");
  for (const std::string& file : BoxFiles(directory)) dump.boxes.push_back(file.substr(file.rfind('/') + 1));
  dump.complain = [](const std::string& line) { WriteNote(line); };
  act::Save(dump);
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Like a leader's: started and left alone, the diagnosis on its standard input.
void StartHook(const settings::Settings& settings, const std::string& input) {
  if (settings.hook.empty()) return;
  const std::vector<std::string> words = act::HookWords(settings.hook, settings.hook_timeout_s);
  const std::vector<std::string> environment = act::HookEnvironment(act::CopyEnvironment());
  act::TellSystemLog("ncclwatch run starts the command of NCCLWATCH_HOOK over " + input);
  const pid_t pid = fork();
  if (pid != 0) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  const int fd = open(input.c_str(), O_RDONLY | O_NOFOLLOW);
  if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) _exit(126);
  close(fd);
  execve(words[0].c_str(), Pointers(words).data(), Pointers(environment).data());
  _exit(127);
}

void Say(const std::string& directory, const diagnosis::Diagnosis& verdict) {
  std::fputs(DiagnosisFor(STDERR_FILENO, verdict).c_str(), stderr);
  Note("diagnosis: {}/{}", directory, kDiagnosisJson);
}

// Whoever ended the launcher has ended the ranks, in some order that tells nothing.
bool EndedFromOutside(int status) {
  return status == 128 + SIGHUP || status == 128 + SIGINT || status == 128 + SIGKILL || status == 128 + SIGTERM;
}

void KeepWitness(const std::string& directory, const reader::Witness& ends, int status) {
  if (ends.empty() || EndedFromOutside(status)) return;
  const std::string error =
      act::WriteFile(descriptors::Directory::Own(directory), reader::kWitnessFile, reader::Format(ends));
  if (!error.empty()) Note("cannot keep how the ranks ended: {}", error);
}

// Of one that was itself ended by the fault, and has seen less.
bool TellsMore(const diagnosis::Diagnosis& again, const diagnosis::Diagnosis& verdict) {
  if (again.clean()) return false;
  const diagnosis::Finding &now = again.findings.front(), &before = verdict.findings.front();
  if (before.certainty == Certainty::kCertain) {
    // A call that is wrong on several ranks: MPI ends the job over the first.
    return now.certainty == Certainty::kCertain && now.kind == diagnosis::Kind::kInvalidArgument &&
           before.kind == now.kind && now.culprits.size() > before.culprits.size();
  }
  if (now.certainty == Certainty::kCertain) return true;
  return before.certainty == now.certainty && before.kind == now.kind && now.culprits.size() < before.culprits.size();
}

std::vector<reader::Observation> SeenEnds(const reader::Witness& ends) {
  std::vector<reader::Observation> seen;
  for (const reader::WitnessedEnd& end : ends) seen.push_back(end.seen);
  return seen;
}

// Kinds of findings that a leader reported while the job ran.
std::set<std::string> ReportedKinds(const std::string& directory) {
  std::set<std::string> kinds;
  for (const char* name : {"events.1.jsonl", "events.jsonl"}) {
    InputFile file(directory + "/" + name);
    for (std::string line; std::getline(file, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.contains("event_type") && event["event_type"].is_string())
        kinds.insert(event["event_type"].get<std::string>());
    }
  }
  return kinds;
}

// What slowed a job that ended, in front of what it left behind. A line about it came while it ran, so the last word
// must not be "healthy". In a short run chance looks like slowness: what no leader has reported counts only if the
// program's own numbers show it.
void AddSlow(const std::string& directory, const reader::RunImage& run, const std::vector<reader::Observation>& ends,
             SiteLines* lines, diagnosis::Diagnosis* verdict) {
  diagnosis::SlowContext context;
  context.topology = TopologyOfTheJob("run");
  const std::set<std::string> reported = ReportedKinds(directory);
  std::vector<diagnosis::Finding> slow = SlowIn(run, ends, context);
  const bool counts = std::any_of(slow.begin(), slow.end(), [&](const auto& finding) {
    return finding.kind == diagnosis::Kind::kNumericFault || finding.kind == diagnosis::Kind::kReplicaDivergence ||
           reported.contains(std::string(diagnosis::Name(finding.kind)));
  });
  if (!counts) return;
  verdict->findings.insert(verdict->findings.begin(), slow.begin(), slow.end());
  NameAndIgnore("run", lines, verdict);
}

std::string CleanLine(const diagnosis::Diagnosis& judged) {
  const std::string watched = fmt::format("{} of {} ranks watched", judged.watched, judged.expected);
  const std::string ignored = IgnoredText(judged.ignored);
  if (judged.healthy())
    return fmt::format("healthy: {}, nothing wrong{}{}", watched, ignored.empty() ? "" : "; ", ignored);
  if (!judged.clean())
    return fmt::format("only suspected: {}; {}", diagnosis::Name(judged.findings.front().kind), watched);
  return fmt::format("nothing wrong in what was recorded ({}): {}", watched, diagnosis::Join(judged.missing, "; "));
}

void ConcludeOne(const std::string& directory, Deaths* deaths, int status, const settings::Settings& settings,
                 Epilogue* epilogue) {
  const bool say = settings.log != settings::LogLevel::kOff;
  const reader::Witness ends = deaths->Ends(directory);
  KeepWitness(directory, ends, status);
  KeepAllCrashFrames(directory);
  const reader::RunImage run = ReadJob({directory}, reader::Calls::kForVerdict);
  SiteLines lines(run.boxes);
  diagnosis::Diagnosis judged = DiagnoseWith(run, SeenEnds(ends));
  NameAndIgnore("run", &lines, &judged);
  auto said = ReadVerdict(directory);
  if (said) NameAndIgnore("run", &lines, &said->diagnosis);
  if (said && IsFault(said->diagnosis, status) && !TellsMore(judged, said->diagnosis)) {
    const Completed completed = Complete(directory, *said, run);
    if (!completed.json.empty()) Keep(directory, completed.json, completed.text);
    if (say) PointTo(*said);
    if (say) SayAdded(completed);
    epilogue->fault = true;
    epilogue->json = completed.json.empty() ? said->text : completed.json;
    SaveEvidence(directory, run, settings);
    return;
  }
  const bool fault = IsFault(judged, status);
  if (judged.harmless()) AddSlow(directory, run, SeenEnds(ends), &lines, &judged);
  const bool slow = !fault && IsFault(judged, status);
  const std::string as_json = diagnosis::ToJson(judged);
  if (!epilogue->fault || fault) epilogue->json = diagnosis::ToJson(judged, diagnosis::Checked::kShown);
  if (!fault && !slow) {
    if (judged.clean() || !judged.harmless())
      epilogue->clean = CleanLine(judged);
    else if (say)
      std::fputs(DiagnosisFor(STDERR_FILENO, lines.ForPeople(judged)).c_str(), stderr);
    return;
  }
  (fault ? epilogue->fault : epilogue->slow) = true;
  const diagnosis::Diagnosis for_people = lines.ForPeople(judged);
  Keep(directory, as_json, diagnosis::ToText(for_people));
  if (say) Say(directory, for_people);
  if (slow) return;  // the job has ended well: no evidence, no hook
  SaveEvidence(directory, run, settings);
  if (!said || !IsFault(said->diagnosis, status)) StartHook(settings, directory + "/" + kDiagnosisJson);
}

}  // namespace

Epilogue Conclude(Deaths* deaths, int status, const settings::Settings& settings) {
  Epilogue epilogue;
  for (const std::string& directory : deaths->directories()) {
    epilogue.watched = true;
    const auto lease = OpenLease(directory);
    epilogue.ended_by_us |= lease.ok() && (*lease)->ending.load(std::memory_order_acquire) != 0;
    ConcludeOne(directory, deaths, status, settings, &epilogue);
  }
  if (!epilogue.watched) epilogue.json = diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes({})));
  return epilogue;
}

}  // namespace ncclwatch::analyzer
