#include "analyzer/shrink/program_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ncclwatch::analyzer {

// C and C++. A handler of a signal may not print by stdio; but the process is about to end, and stands still.
const char* const kReportsText = R"(static int rank = 0;
static const char* volatile in = "its beginning";  // the call that the rank is in

static void Say(const char* what, const char* of) {
  char line[1024];
  const int length = snprintf(line, sizeof line, "rank %d: %s%.900s\n", rank, what, of);
  if (write(STDOUT_FILENO, line, length) < 0) _exit(1);
}

// The watchdog: after TIMEOUT seconds every rank says where it is, and the run ends by status 124, as of timeout(1).
static void Stopped(int signal) {
  (void)signal;
  Say("stopped in ", in);
  sleep(1);  // so that the others say it too
  _exit(124);
}

static int Timeout(void) { return getenv("TIMEOUT") ? atoi(getenv("TIMEOUT")) : 60; }

static void Watch(void) {
  signal(SIGALRM, Stopped);
  alarm(Timeout());
}
)";

std::vector<std::string> StayingText(const std::string& otherwise) {
  return {"Say(\"finished its calls, and stays\", \"\");", "in = \"no call: it has finished\";",
          "Stay();  // part of the fault: if it left, this would be " + otherwise};
}

std::vector<std::string> EndingText(const Fates& fates, const reader::BoxImage& box, const ProgramRequest& request) {
  if (const auto stays = request.stays.find(box.rank); stays != request.stays.end()) return StayingText(stays->second);
  const auto end = fates.EndOf(box);
  if (!end) return {};
  std::vector<std::string> text{"Say(\"finished its calls\", \"\");"};
  if (end->stopped)
    text.push_back("raise(SIGSTOP);");
  else
    text.push_back(end->signal > 0 ? fmt::format("signal({0}, SIG_DFL), raise({0});", end->signal)
                                   : fmt::format("_exit({});", end->status));
  return text;
}

std::string CallText(const std::string& call) { return "CALL(" + call + ");"; }

absl::Status CannotBeWritten(const RecordedProgram& program, int rank, const reader::Call& call) {
  return absl::UnimplementedError(fmt::format("the fault needs {} (rank {}, seq {}), which cannot be written yet",
                                              functions::FullName(call.function), program.process(rank)->rank(),
                                              call.slot));
}

}  // namespace ncclwatch::analyzer
