#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/view/from_boxes.h"
#include "simulation/chance.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/topology.h"
#include "tests/support/black_box.h"

namespace ncclwatch::jobs {
namespace {

namespace fs = std::filesystem;

// Records that were being written, or never were.
void Tear(Dice* dice, format::Header* header) {
  auto* ring = testing::At<format::Record>(header, header->ring);
  const std::uint32_t count = header->ring.count;
  const auto from = static_cast<std::uint32_t>(dice->Below(static_cast<int>(count)));
  const auto length = static_cast<std::uint32_t>(dice->Below(static_cast<int>(count) / 4));
  for (std::uint32_t i = 0; i < length; ++i) ring[(from + i) % count].commit = dice->OneIn(2) ? 0 : dice->Below(1000);
}

void WriteSome(const Generated& made, Dice* dice, const std::string& folder) {
  for (int rank = 0; rank < made.job.shape.ranks; ++rank) {
    if (!HasBox(made, rank) || dice->OneIn(5)) continue;
    const std::unique_ptr<BoxMemory> box = MakeBox(made, rank);
    std::uint64_t bytes = box->bytes();
    if (dice->OneIn(5)) {
      if (dice->OneIn(2)) {
        Tear(dice, box->header());
      } else {
        bytes = static_cast<std::uint64_t>(dice->Between(0, static_cast<std::int64_t>(bytes)));
      }
    }
    std::ofstream(folder + "/" + BoxName(made, rank), std::ios::binary)
        .write(box->data(), static_cast<std::streamsize>(bytes));
  }
}

}  // namespace

int RunRemoved(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), jobs = options.Number("jobs", 500);
  const std::string folder = options.Text("dir", "/dev/shm/ncclwatch-removed-boxes");
  constexpr int kRanks[] = {8, 16, 32, 64};
  std::map<std::string, Tally> tallies;
  Tally all;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    Dice dice(seed, 0x4e30);
    const std::vector<std::string>&topologies = TopologyNames(), &faults = FaultNames();
    const Shape shape{.topology = topologies[seed % topologies.size()],
                      .fault = faults[static_cast<std::size_t>(dice.Below(static_cast<int>(faults.size())))],
                      .ranks = dice.Of(kRanks, std::size(kRanks)),
                      .seed = seed};
    Generated made;
    if (!Generate(shape, &made)) continue;
    fs::remove_all(folder);
    fs::create_directories(folder);
    WriteSome(made, &dice, folder);
    reader::RunImage run = reader::ReadRun({folder});
    const Judged judged =
        Compare(made.truth, diagnosis::Diagnose(diagnosis::FromBoxes(std::move(run.boxes))), /*partly=*/true);
    ++tallies[shape.fault].of(judged.verdict);
    if (judged.verdict != Verdict::kWrongCertain) continue;
    PrintMiss(made, shape, judged);
    std::printf("    boxes left as by: job_matrix removed --first %llu --jobs 1\n",
                static_cast<unsigned long long>(seed));
  }
  if (!options.Has("keep")) fs::remove_all(folder);
  PrintHead("a fifth of the boxes removed");
  for (const auto& [name, tally] : tallies) PrintRow(name, tally);
  for (const auto& [name, tally] : tallies) all.Add(tally);
  PrintRow("all", all);
  return all.of(Verdict::kWrongCertain) == 0 ? 0 : 1;
}

}  // namespace ncclwatch::jobs
