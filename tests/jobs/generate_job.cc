// generate_job [--topology T] [--fault F] [--ranks N] [--seed S] [--steps N] [--at NS] --out FOLDER: the black boxes of
// a job with one fault, in real format, and truth.json beside them. --list names topologies and faults, --at chooses
// the instant.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/jobs/options.h"
#include "tests/jobs/simulator/generate.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr char kUsage[] =
    "usage: generate_job --out FOLDER [--topology T] [--fault F] [--ranks N] [--seed S] [--steps N] [--ring N]\n"
    "       [--at NS]\n"
    "       generate_job --list\n";

void List() {
  for (const std::string& name : TopologyNames()) std::printf("topology %s\n", name.c_str());
  for (const std::string& name : FaultNames()) std::printf("fault %s\n", name.c_str());
}

int Main(int argc, char** argv) {
  const Options options(argc, argv);
  if (options.Has("list")) {
    List();
    return 0;
  }
  const std::string out = options.Text("out", "");
  if (out.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  Generated made;
  const Shape shape = options.OneShape();
  if (!Generate(shape, &made)) {
    std::fprintf(stderr, "no such job: %s\n", CommandOf(shape).c_str());
    return 2;
  }
  if (options.Has("at")) {
    made.now = static_cast<std::int64_t>(options.Number("at", 0));
    made.verdict = false;
  }
  if (options.Has("ring")) made.job.ring = static_cast<std::uint32_t>(options.Number("ring", 256));
  if (!WriteBoxes(made, out)) {
    std::fprintf(stderr, "cannot write into %s\n", out.c_str());
    return 3;
  }
  std::ofstream(out + "/truth.json") << ToJson(made.truth, CommandOf(shape));
  return 0;
}

}  // namespace
}  // namespace ncclwatch::jobs

int main(int argc, char** argv) { return ncclwatch::jobs::Main(argc, argv); }
