#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "simulation/chance.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

namespace fs = std::filesystem;

std::string VerdictOf(const std::string& folder, std::uint64_t newest, std::uint64_t* left_out) {
  std::vector<reader::BoxImage> boxes;
  std::vector<fs::path> files(fs::directory_iterator{folder}, fs::directory_iterator{});
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    auto read = reader::ReadBox(file.string(), newest);
    if (auto* box = std::get_if<reader::BoxImage>(&read)) boxes.push_back(std::move(*box));
  }
  for (const reader::BoxImage& box : boxes) *left_out += box.left_out;
  diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes(std::move(boxes)));
  diagnosis.notes.clear();  // they tell what was left out
  return diagnosis::ToJson(diagnosis);
}

}  // namespace

int RunSifted(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), jobs = options.Number("jobs", 500);
  const std::uint64_t newest = options.Number("newest", 8);
  const std::string folder = options.Text("dir", "/dev/shm/ncclwatch-sifted-boxes");
  constexpr int kRanks[] = {8, 16, 32};
  std::uint64_t left_out = 0, made_jobs = 0, different = 0;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    Dice dice(seed, 0x51f7);
    const std::vector<std::string>&topologies = TopologyNames(), &faults = FaultNames();
    const Shape shape{.topology = topologies[seed % topologies.size()],
                      .fault = faults[seed / topologies.size() % faults.size()],
                      .ranks = dice.Of(kRanks, std::size(kRanks)),
                      .steps = static_cast<int>(dice.Between(3, 12)),
                      .seed = seed};
    Generated made;
    if (!Generate(shape, &made)) continue;
    fs::remove_all(folder);
    if (!WriteBoxes(made, folder)) return 3;
    std::uint64_t none = 0;
    const std::string whole = VerdictOf(folder, UINT64_MAX, &none);
    const std::string sifted = VerdictOf(folder, newest, &left_out);
    ++made_jobs;
    if (whole == sifted) continue;
    ++different;
    std::printf("another verdict: %s --out DIR\n", CommandOf(shape).c_str());
    if (options.Has("show")) std::printf("--- whole\n%s--- sifted\n%s", whole.c_str(), sifted.c_str());
  }
  if (!options.Has("keep")) fs::remove_all(folder);
  std::printf("%llu jobs, %llu calls left out of the images, %llu verdicts differ\n",
              static_cast<unsigned long long>(made_jobs), static_cast<unsigned long long>(left_out),
              static_cast<unsigned long long>(different));
  return different == 0 && left_out > 0 ? 0 : 1;
}

}  // namespace ncclwatch::jobs
