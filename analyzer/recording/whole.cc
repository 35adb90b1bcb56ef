#include "analyzer/recording/whole.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

using CommKey = std::pair<std::uint32_t, std::uint32_t>;  // index, generation

void AddPiece(Piece piece, std::map<CommKey, reader::Communicator>* communicators, reader::BoxImage* box) {
  for (reader::Communicator& one : piece.communicators)
    communicators->insert_or_assign({one.index, one.generation}, std::move(one));
  std::move(piece.calls.begin(), piece.calls.end(), std::back_inserter(box->calls));
  std::move(piece.parts.begin(), piece.parts.end(), std::back_inserter(box->parts));
}

absl::StatusOr<reader::BoxImage> WholeBox(const ProcessRecording& process) {
  reader::BoxImage box = process.process();
  std::map<CommKey, reader::Communicator> communicators;
  for (const reader::Communicator& one : box.communicators) communicators[{one.index, one.generation}] = one;
  PieceReader pieces(process);
  std::vector<reader::Failure> failures;
  for (Piece piece; pieces.Next(&piece, &failures);) AddPiece(std::move(piece), &communicators, &box);
  if (!failures.empty()) return absl::DataLossError(failures.front().path + ": " + failures.front().reason);
  box.communicators.clear();
  for (auto& [key, one] : communicators) box.communicators.push_back(std::move(one));
  box.first_slot = box.calls.empty() ? 0 : box.calls.front().slot;
  box.head = box.calls.empty() ? 0 : box.calls.back().slot + 1;
  box.rank = process.rank();
  box.dump = false;
  return box;
}

}  // namespace

absl::StatusOr<std::vector<reader::BoxImage>> WholeBoxes(const Recording& recording, std::uint64_t most) {
  std::vector<reader::BoxImage> boxes;
  std::uint64_t calls = 0;
  for (const ProcessRecording& process : recording.processes()) {
    if (process.end_slot() == 0) continue;
    if (calls += process.end_slot() - process.lost_calls(); calls > most)
      return absl::OutOfRangeError(fmt::format("has more than {} calls, as many as can be looked at at once", most));
    auto box = WholeBox(process);
    if (!box.ok()) return box.status();
    boxes.push_back(*std::move(box));
  }
  std::stable_sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return boxes;
}

}  // namespace ncclwatch::analyzer
