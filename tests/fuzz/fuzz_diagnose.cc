// Jobs from bytes: each byte pair is a step of a small job (calls, groups, messages, deaths, states, time), then
// raw damage to the images. What must hold: no crash, ranks in range, every cause among the findings, every finding
// with a summary and something to do.
#include <algorithm>
#include <cstdlib>

#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/fuzz/input.h"
#include "tests/unit/support/job_builder.h"

namespace {

using namespace ncclwatch;
using testing::Job;

constexpr int kRanks = 4;

testing::Spec SpecOf(std::uint8_t byte) {
  testing::Spec spec = byte % 3 == 0   ? testing::AllGather(byte % 7)
                       : byte % 3 == 1 ? testing::Broadcast(byte % 5, byte % 4 + 1)
                                       : testing::AllReduce(byte % 5);
  spec.stream = byte / 64u + 1;
  return spec;
}

void Step(std::uint8_t what, std::uint8_t how, int comms, Job* job) {
  const int rank = how % kRanks;
  const int comm = (how / kRanks) % comms;
  switch (what % 16) {
    case 0:
    case 1: job->Call({rank}, comm, SpecOf(what)); break;
    case 2: job->Done({0, 1, 2, 3}, comm, SpecOf(how)); break;
    case 3: job->Enter(rank, comm, SpecOf(what)); break;
    case 4: job->Finish({rank}, comm); break;
    case 5: job->Group(rank, [&] { job->Call({rank}, comm, SpecOf(what)), job->Call({rank}, 0, SpecOf(how)); }); break;
    case 6: job->Message(rank, comm, functions::Function::ncclSend, what / 16 % kRanks); break;
    case 7: job->Message(rank, comm, functions::Function::ncclRecv, what / 16 % kRanks); break;
    case 8: job->Die(rank, what % 32 == 8 ? Job::Signal(how % 32 + 1) : Job::Status(how % 3)); break;
    case 9: job->Observe(rank, static_cast<format::Observed>(what / 16 % 11)); break;
    case 10: job->Silence(rank); break;
    case 11: job->Pass(how * 0.5); break;
    case 12: job->Entry(rank, comm).state = static_cast<format::CommunicatorState>(what / 16 % 8); break;
    case 13: job->Entry(rank, comm).flags ^= 1u << (what / 16 % 4); break;
    case 14: job->Marks(how % 2 == 0); break;
    case 15: job->Entry(rank, comm).size = how % 9; break;
  }
}

void Damage(fuzz::Input* bytes, diagnosis::Snapshot* snapshot) {
  while (bytes->size >= 4 && !snapshot->boxes.empty()) {
    reader::BoxImage& box = snapshot->boxes[bytes->Next() % snapshot->boxes.size()];
    const std::uint8_t what = bytes->Next();
    const std::uint64_t value = bytes->Next() % 2 == 0 ? bytes->Next() : ~std::uint64_t{bytes->Next()};
    if (!box.calls.empty()) {
      reader::Call& call = box.calls[value % box.calls.size()];
      if (what % 8 == 0) call.position = value;
      if (what % 8 == 1) call.chain = value;
      if (what % 8 == 2) call.entered_ns = static_cast<std::int64_t>(value >> 2);
      if (what % 8 == 3) call.root = static_cast<std::int32_t>(value);
      if (what % 8 == 4) call.function = static_cast<functions::Function>(value);
    }
    if (what % 8 == 5) box.rank = static_cast<std::int32_t>(value);
    if (what % 8 == 6) box.world_size = static_cast<std::int32_t>(value);
    if (what % 8 == 7 && !box.communicators.empty()) box.communicators[0].entered = value;
  }
}

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input bytes{data, std::min<std::size_t>(size, 512)};
  Job job(kRanks);
  job.Comm({0, 1, 2, 3}, "second", Job::kWorld);
  const int steps = bytes.Next() % 100;
  for (int i = 0; i < steps && bytes.size > 0; ++i) {
    const std::uint8_t what = bytes.Next();
    Step(what, bytes.Next(), 2, &job);
  }
  diagnosis::Snapshot snapshot = job.Snapshot();
  Damage(&bytes, &snapshot);
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  for (std::size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const diagnosis::Finding& finding = diagnosis.findings[i];
    Require(std::is_sorted(finding.culprits.begin(), finding.culprits.end()));
    Require(finding.culprits.empty() || finding.culprits.front() >= 0);
    Require(!finding.summary.empty() && !finding.next_steps.empty());
    Require(!finding.caused_by || *finding.caused_by < diagnosis.findings.size());
  }
  diagnosis::ToText(diagnosis);
  diagnosis::ToJson(diagnosis);
  diagnosis::Diagnose(diagnosis::FromBoxes(snapshot.boxes));
  return 0;
}
