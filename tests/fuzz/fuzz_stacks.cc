// Stack files, and those of machines, are written by programs that may be killed, and lie where others may write: any
// bytes at all.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/reader/beside/machine.h"
#include "core/reader/stacks.h"
#include "core/report/render.h"
#include "core/report/where.h"
#include "core/slow/machine.h"
#include "tests/unit/support/job_builder.h"

namespace {

using ncclwatch::testing::Job;

const ncclwatch::diagnosis::Diagnosis& Verdict() {
  static const ncclwatch::diagnosis::Diagnosis verdict = [] {
    Job job(3);
    job.Call({0, 1}, Job::kWorld, ncclwatch::testing::AllReduce());
    job.At(100);
    return job.Diagnose();
  }();
  return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ncclwatch::reader::VerdictStacks stacks;
  if (auto process = ncclwatch::reader::ParseProcessStacks(text)) stacks.processes.push_back(*process);
  if (auto parsed = ncclwatch::reader::ParseVerdictStacks(text)) stacks = *parsed;
  if (stacks.verdict_at_ns == 0) stacks.verdict_at_ns = 1;
  // What was read once is written and read again as it is: the leader's verdict and everybody else's are the same.
  const std::string written = ncclwatch::reader::Format(stacks);
  const auto again = ncclwatch::reader::ParseVerdictStacks(written);
  if (!again || ncclwatch::reader::Format(*again) != written) std::abort();
  ncclwatch::diagnosis::Diagnosis verdict = Verdict();
  const auto& culprit = verdict.findings.front().culprit_details.front();
  for (auto& process : stacks.processes) {
    if (process.pid % 2 == 0) continue;
    process.pid = *culprit.pid;
    process.start_time = culprit.start_time;
    process.host = culprit.host;
  }
  ncclwatch::diagnosis::AddWhere(stacks.processes, &verdict);
  if (auto look = ncclwatch::reader::ParseMachine(text)) {
    const std::string kept = ncclwatch::reader::Format(*look, true);
    const auto once_more = ncclwatch::reader::ParseMachine(kept);
    if (!once_more || ncclwatch::reader::Format(*once_more, true) != kept) std::abort();
    look->host = culprit.host;
    ncclwatch::diagnosis::AddMachines({*look}, &verdict.findings);
  }
  ncclwatch::diagnosis::ToJson(verdict);
  ncclwatch::diagnosis::ToText(verdict);
  return 0;
}
