#include <filesystem>
#include <fstream>

#include "tests/jobs/simulator/generate.h"

namespace ncclwatch::jobs {

bool WriteBoxes(const Generated& made, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (int rank = 0; rank < made.job.shape.ranks; ++rank) {
    if (!HasBox(made, rank)) continue;
    const std::unique_ptr<BoxMemory> box = MakeBox(made, rank);
    std::ofstream file(folder + "/" + BoxName(made, rank), std::ios::binary);
    if (!file.write(box->data(), static_cast<std::streamsize>(box->bytes()))) return false;
  }
  return true;
}

}  // namespace ncclwatch::jobs
