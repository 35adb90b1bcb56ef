// generate_job [--topology T] [--fault F] [--ranks N] [--seed S] [--steps N] [--at NS] --out FOLDER: the black boxes of
// a job with one fault, in real format, and truth.json beside them. --list names topologies and faults, --at chooses
// the instant. --slow writes one that goes on.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/jobs/options.h"
#include "tests/jobs/simulator/generate.h"
#include "tests/jobs/simulator/slow_job.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

constexpr char kUsage[] =
    "usage: generate_job --out FOLDER [--topology T] [--fault F] [--ranks N] [--seed S] [--steps N] [--ring N]\n"
    "       [--at NS]\n"
    "       generate_job --out FOLDER --slow FAULT [--ranks N] [--seed S]\n"
    "       generate_job --list\n";

void List() {
  for (const std::string& name : TopologyNames()) std::printf("topology %s\n", name.c_str());
  for (const std::string& name : FaultNames()) std::printf("fault %s\n", name.c_str());
  for (const std::string& name : SlowFaults()) std::printf("slow %s\n", name.c_str());
}

// A job that goes on, and is slow.
int WriteSlow(const Options& options, const std::string& out) {
  const std::string fault = options.Text("slow", "");
  Generated made;
  SlowTruth truth;
  if (!GenerateSlow({fault, fault == "healthy" ? "straggler" : fault, static_cast<int>(options.Number("ranks", 64)),
                     options.Number("seed", 1)},
                    &made, &truth)) {
    std::fprintf(stderr, "no such job: --slow %s\n", fault.c_str());
    return 2;
  }
  if (!WriteBoxes(made, out)) {
    std::fprintf(stderr, "cannot write into %s\n", out.c_str());
    return 3;
  }
  std::printf("%s\n", truth.story.c_str());
  return 0;
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
  if (options.Has("slow")) return WriteSlow(options, out);
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
