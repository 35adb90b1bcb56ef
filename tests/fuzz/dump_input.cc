#include "tests/fuzz/dump_input.h"

#include <cstdlib>

#include "analyzer/export/torch_dump.h"
#include "analyzer/import/boxes.h"
#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

namespace import = analyzer::import;

// Of rank 2 of a job of three, as export writes it.
const std::string& Honest() {
  static const std::string pickle = [] {
    Job job(3);
    job.Done({0, 1, 2}, Job::kWorld, AllReduce());
    job.Call({2}, Job::kWorld, AllGather());
    job.Message(2, Job::kWorld, functions::Function::ncclSend, 1);
    const diagnosis::Snapshot snapshot = job.Snapshot();
    return analyzer::exporting::ToTorchDumps(diagnosis::MakeView(snapshot)).dumps.back().pickle;
  }();
  return pickle;
}

}  // namespace

void DiagnoseDump(std::string_view bytes) {
  static import::Tree tree;
  std::vector<import::Dump> dumps;
  for (const std::int32_t rank : {0, 1, 2}) {
    auto dump = import::ParseDump(rank == 2 ? std::string_view(Honest()) : bytes, &tree);
    if (!dump.ok()) continue;
    // In proportion to the input, whatever it says; the tree begins with some values of its own.
    if (rank != 2 && (tree.size() > bytes.size() + 300 || dump->box.calls.size() > bytes.size())) std::abort();
    if (rank == 2 || dump->rank < 0) dump->rank = rank;
    dumps.push_back(*std::move(dump));
  }
  if (dumps.size() < 2) return;
  reader::RunImage run;
  import::AddBoxes(std::move(dumps), &run);
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(run.boxes));
  const diagnosis::Diagnosis verdict = diagnosis::Diagnose(snapshot);
  diagnosis::ToJson(verdict);
  diagnosis::ToText(verdict);
  analyzer::exporting::ToTorchDumps(diagnosis::MakeView(snapshot));
}

}  // namespace ncclwatch::testing
