#include "core/nodes/messages.h"

#include <algorithm>

#include "core/nodes/bytes.h"
#include "core/nodes/diagnosis_code.h"
#include "core/nodes/image_code.h"
#include "core/nodes/summary.h"

namespace ncclwatch::nodes {
namespace {

constexpr std::uint64_t kMostBoxes = 4096;
constexpr std::size_t kMostStacks = 512u << 10;

Writer Begun() {
  Writer to;
  to.Byte(kWireVersion);
  return to;
}

// False: of a version that is not known here, or nothing at all.
bool Known(Reader* from) {
  const std::uint8_t version = from->Byte();
  return from->ok() && version == kWireVersion;
}

std::string WriteBoxes(std::uint64_t number, const std::vector<reader::BoxImage>& boxes) {
  Writer to = Begun();
  to.Number(number).Number(boxes.size());
  for (const reader::BoxImage& box : boxes) WriteImage(box, &to);
  return to.Take();
}

}  // namespace

std::vector<std::string> InPieces(std::uint64_t number, std::string_view whole) {
  std::vector<std::string> bodies;
  const std::uint64_t pieces = std::max<std::uint64_t>(1, (whole.size() + kPiece - 1) / kPiece);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    Writer to = Begun();
    to.Number(number).Number(piece).Number(pieces);
    to.Raw(whole.substr(std::min<std::size_t>(whole.size(), piece * kPiece), kPiece));
    bodies.push_back(to.Take());
  }
  return bodies;
}

std::optional<std::string> Pieces::Add(std::string_view body, bool* damaged) {
  Reader from(body);
  const bool known = Known(&from);
  const std::uint64_t number = from.Number(), piece = from.Number(), pieces = from.NumberUpTo(kMostWhole / kPiece + 1);
  *damaged = !known || !from.ok() || pieces == 0 || piece >= pieces || from.left() > kPiece;
  if (*damaged) return std::nullopt;
  if (piece == 0) {
    number_ = number;
    next_ = 0;
    pieces_ = pieces;
    whole_.clear();
  }
  if (number != number_ || piece != next_ || pieces != pieces_) {  // one has been lost: wait for another beginning
    pieces_ = 0;
    return std::nullopt;
  }
  ++next_;
  whole_.append(from.Raw(from.left()));
  if (next_ < pieces_) return std::nullopt;
  pieces_ = 0;
  return std::move(whole_);
}

std::string Write(const Fetch& fetch) {
  Writer to = Begun();
  to.Number(fetch.number).Number(fetch.newest_calls).Whole(fetch.communicator).Number(fetch.most_bytes);
  return to.Take();
}

std::optional<Fetch> ReadFetch(std::string_view body) {
  Reader from(body);
  if (!Known(&from)) return std::nullopt;
  Fetch fetch;
  fetch.number = from.Number();
  fetch.newest_calls = from.Number();
  fetch.communicator = from.Whole();
  fetch.most_bytes = from.Number();
  if (!from.Done()) return std::nullopt;
  return fetch;
}

std::vector<std::string> Answer(const Fetch& fetch, std::vector<reader::BoxImage> boxes) {
  constexpr std::uint64_t kFewest = 16;
  if (boxes.size() > kMostBoxes) boxes.resize(kMostBoxes);
  std::uint64_t newest = fetch.newest_calls, communicator = fetch.communicator;
  const std::size_t most = std::min<std::size_t>(fetch.most_bytes, kMostWhole);
  for (;;) {
    for (reader::BoxImage& box : boxes) KeepCalls(newest, communicator, &box);
    const std::string whole = WriteBoxes(fetch.number, boxes);
    if (whole.size() <= most || newest <= kFewest) return InPieces(fetch.number, whole);
    // What there is in calls decides, not what was asked for: the next try is shorter for sure.
    std::uint64_t longest = 0;
    for (const reader::BoxImage& box : boxes) longest = std::max<std::uint64_t>(longest, box.calls.size());
    newest = std::max(kFewest, std::min(newest, longest) / 2);
    communicator = 0;
  }
}

std::optional<Records> ReadRecords(std::string_view whole, std::size_t most_made) {
  Reader from(whole, most_made);
  if (!Known(&from)) return std::nullopt;
  Records records;
  records.number = from.Number();
  for (std::uint64_t left = from.NumberUpTo(kMostBoxes); left > 0 && from.ok(); --left) {
    from.Made(sizeof(reader::BoxImage));
    if (!ReadImage(&from, &records.boxes.emplace_back())) return std::nullopt;
  }
  if (!from.Done()) return std::nullopt;
  records.made = from.made();
  return records;
}

namespace {

enum WordBits : std::uint8_t { kStands = 1, kAnnounced = 2, kDiagnosis = 4, kUnproven = 8 };

}  // namespace

std::vector<std::string> Write(const VerdictBroadcast& word) {
  Writer to = Begun();
  to.Number(word.revision).Number(word.verdicts).Signed(word.job_minus_yours_ns);
  to.Signed(word.limits.suspect_after_ns).Signed(word.limits.likely_after_ns).Signed(word.longest_wait_ns);
  to.Byte(static_cast<std::uint8_t>((word.stands ? kStands : 0) | (word.announced ? kAnnounced : 0) |
                                    (word.diagnosis ? kDiagnosis : 0) | (word.unproven ? kUnproven : 0)));
  to.Signed(word.diagnosed_ns).Text(word.hub_host, kMostName);
  if (word.diagnosis) {
    WriteDiagnosis(*word.diagnosis, &to);
    to.Text(reader::Format({word.diagnosed_ns, word.stacks}), kMostStacks);
  }
  return InPieces(word.revision, to.bytes());
}

std::optional<VerdictBroadcast> ReadWord(std::string_view whole) {
  Reader from(whole);
  if (!Known(&from)) return std::nullopt;
  VerdictBroadcast word;
  word.revision = from.Number();
  word.verdicts = from.Number();
  word.job_minus_yours_ns = from.Signed();
  word.limits.suspect_after_ns = from.Signed();
  word.limits.likely_after_ns = from.Signed();
  word.longest_wait_ns = from.Signed();
  const std::uint8_t bits = from.Byte();
  word.stands = (bits & kStands) != 0;
  word.announced = (bits & kAnnounced) != 0;
  word.unproven = (bits & kUnproven) != 0;
  word.diagnosed_ns = from.Signed();
  word.hub_host = from.Text(kMostName);
  if ((bits & kDiagnosis) != 0) {
    if (!ReadDiagnosis(&from, &word.diagnosis.emplace())) return std::nullopt;
    std::optional<reader::VerdictStacks> stacks = reader::ParseVerdictStacks(from.Text(kMostStacks));
    if (stacks) word.stacks = std::move(stacks->processes);
  }
  const bool sense = word.limits.suspect_after_ns > 0 && word.limits.likely_after_ns > 0 &&
                     (!word.stands || (word.diagnosis && !word.diagnosis->clean()));
  if (!from.Done() || !sense) return std::nullopt;
  return word;
}

std::optional<VerdictBroadcast> ReadKept(std::string_view bytes) {
  // Each piece but the last is as long as a piece may be; a short word is one piece.
  Pieces pieces;
  std::optional<std::string> whole;
  for (bool damaged = false; !bytes.empty() && !whole && !damaged;) {
    Reader from(bytes);
    Known(&from);
    from.Number();
    const std::uint64_t piece = from.Number(), count = from.Number();
    if (!from.ok()) return std::nullopt;
    const std::size_t head = bytes.size() - from.left();
    const std::string_view one = bytes.substr(0, piece + 1 < count ? head + kPiece : bytes.size());
    whole = pieces.Add(one, &damaged);
    bytes.remove_prefix(one.size());
  }
  return whole ? ReadWord(*whole) : std::nullopt;
}

std::string Write(const Action& action) {
  Writer to = Begun();
  to.Byte(action.evidence ? 1 : 0).Signed(action.diagnosed_ns);
  to.Text(action.stacks.empty() ? "" : reader::Format({action.diagnosed_ns, action.stacks}), kMostStacks);
  return to.Take();
}

std::optional<Action> ReadAction(std::string_view body) {
  Reader from(body);
  if (!Known(&from)) return std::nullopt;
  Action action;
  action.evidence = from.Byte() != 0;
  action.diagnosed_ns = from.Signed();
  if (std::optional<reader::VerdictStacks> stacks = reader::ParseVerdictStacks(from.Text(kMostStacks)))
    action.stacks = std::move(stacks->processes);
  if (!from.Done()) return std::nullopt;
  return action;
}

}  // namespace ncclwatch::nodes
