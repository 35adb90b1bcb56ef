// What node leaders say to one another, from strangers. The first byte says what the rest is meant to be: summaries one
// after the other (each behind its length, two bytes), an image, a whole of records, a word, pieces, steps, findings.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>

#include "core/diagnose.h"
#include "core/nodes/diagnosis_code.h"
#include "core/nodes/hub.h"
#include "core/nodes/image_code.h"
#include "core/nodes/messages.h"
#include "core/nodes/steps_code.h"
#include "core/nodes/summary.h"
#include "core/report/render.h"
#include "core/slow/find.h"
#include "core/steps/reported_steps.h"
#include "core/view/from_boxes.h"

namespace {

using namespace ncclwatch;

struct Nowhere : nodes::MessageSender {
  bool Send(const std::string&, nodes::Kind, std::string body) override {
    if (body.empty()) std::abort();
    return true;
  }
};

void Diagnose(std::vector<reader::BoxImage> boxes) {
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = 1'000'000'000'000'000;
  snapshot.boxes = std::move(boxes);
  diagnosis::GatherObservations(&snapshot);
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  diagnosis::ToText(diagnosis);
  diagnosis::ToJson(diagnosis);
}

void Summaries(std::string_view bytes) {
  constexpr std::int64_t kTick = 400'000'000;
  Nowhere nowhere;
  nodes::Hub hub(&nowhere, "own");
  std::int64_t now_ns = kTick;
  hub.Join("a", now_ns);
  hub.Join("b", now_ns);
  for (int i = 0; bytes.size() >= 2; ++i, now_ns += kTick) {
    const std::size_t size = static_cast<std::uint8_t>(bytes[0]) | std::size_t{static_cast<std::uint8_t>(bytes[1])}
                                                                       << 8;
    bytes.remove_prefix(2);
    hub.TakeSummary(i % 2 == 0 ? "a" : "b", bytes.substr(0, size), now_ns);
    bytes.remove_prefix(std::min(size, bytes.size()));
    hub.table().Poll(now_ns);
  }
  nodes::Table& table = hub.table();
  table.Poll(now_ns + kTick);
  table.World();
  table.QuietSince();
  for (const auto& suspicion : table.suspicions()) hub.WhomForAll(suspicion.communicator);
  hub.Whom({});
  hub.Leave("b", false, now_ns);
  Diagnose(hub.Boxes({}, 1, now_ns));
}

void Records(std::string_view bytes) {
  std::optional<nodes::Records> records = nodes::ReadRecords(bytes);
  if (!records) return;
  // What was read is written again as it was read.
  const std::vector<std::string> again = nodes::Answer({1, UINT64_MAX, 0, UINT64_MAX}, records->boxes);
  nodes::Pieces pieces;
  bool damaged = false;
  std::optional<std::string> whole;
  for (const std::string& piece : again) whole = pieces.Add(piece, &damaged);
  if (!whole || !nodes::ReadRecords(*whole)) std::abort();
  if (bytes.size() < 1u << 16) Diagnose(std::move(records->boxes));
}

void VerdictBroadcast(std::string_view bytes) {
  const std::optional<nodes::VerdictBroadcast> word = nodes::ReadWord(bytes);
  if (!word || !word->diagnosis) return;
  diagnosis::ToText(*word->diagnosis);
  diagnosis::ToJson(*word->diagnosis);
}

// Of ranks that have the communicators which the steps speak of.
void Steps(std::string_view bytes) {
  std::optional<std::vector<diagnosis::ReportedRank>> reported = nodes::ReadSteps(bytes);
  if (!reported) return;
  diagnosis::Snapshot snapshot;
  diagnosis::ReportedSteps steps;
  for (std::size_t i = 0; i < reported->size() && i < 64; ++i) {
    diagnosis::ReportedRank& rank = (*reported)[i];
    reader::BoxImage& box = snapshot.boxes.emplace_back();
    box.from_summary = true;
    box.boot_id = rank.boot_id;
    box.host = "host";
    std::tie(box.pid_namespace, box.start_time, box.pid) = std::tie(rank.pid_namespace, rank.start_time, rank.pid);
    box.rank = static_cast<std::int32_t>(i);
    for (const diagnosis::ReportedKind& kind : rank.kinds) {
      reader::Communicator& comm = box.communicators.emplace_back();
      comm.index = kind.channel.communicator;
      comm.generation = kind.channel.generation;
      comm.id = 1 + kind.channel.communicator;
      comm.rank = static_cast<std::uint32_t>(i);
      comm.size = static_cast<std::uint32_t>(reported->size());
      comm.state = format::CommunicatorState::kReady;
    }
    steps.Take(std::move(rank));
  }
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  const diagnosis::StepTable table = steps.Table(view);
  if (table.steps() > 0) diagnosis::FindSlowSteps(view, table, {});
}

void Findings(std::string_view bytes) {
  const std::optional<std::vector<diagnosis::Finding>> findings = nodes::ReadFindings(bytes);
  for (const diagnosis::Finding& finding : findings.value_or(std::vector<diagnosis::Finding>()))
    diagnosis::ToJsonLine(finding);
}

void InPieces(std::string_view bytes) {
  nodes::Pieces pieces;
  bool damaged = false;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), static_cast<std::uint8_t>(bytes[0]));
    pieces.Add(bytes.substr(1, size), &damaged);
    bytes.remove_prefix(std::min(bytes.size(), size + 1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int kind = data[0] % 7;
  if (kind == 0) return Summaries(bytes), 0;
  // An input stays useful when the version changes.
  if (kind != 3 && !bytes.empty()) bytes[0] = static_cast<char>(nodes::kWireVersion);
  switch (kind) {
    case 1: Records(bytes); break;
    case 2: VerdictBroadcast(bytes); break;
    case 3: InPieces(bytes); break;
    case 5: Steps(bytes); break;
    case 6: Findings(bytes); break;
    default: nodes::ReadFetch(bytes); break;
  }
  return 0;
}
