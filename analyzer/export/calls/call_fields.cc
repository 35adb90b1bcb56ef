#include "analyzer/export/calls/call_fields.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using import::Field;

class Fields {
 public:
  void Number(Field field, std::int64_t value) { all_.push_back({field, value}); }
  void Number(Field field, std::uint64_t value) { Number(field, static_cast<std::int64_t>(value)); }
  template <typename T>
  void Number(Field field, const std::optional<T>& value) {
    if (value) Number(field, static_cast<std::int64_t>(*value));
  }
  void Text(Field field, std::string value) {
    if (!value.empty()) all_.push_back({field, std::move(value)});
  }
  std::vector<FieldValue> Take() { return std::move(all_); }

 private:
  std::vector<FieldValue> all_;
};

void AddTimes(const Facts& facts, Fields* to) {
  to->Number(Field::kTimeNs, facts.time_ns);
  to->Number(Field::kDurationNs, facts.duration_ns);
  to->Number(Field::kReturnedNs, facts.returned_ns);
  to->Number(Field::kCompletedNs, facts.completed_ns);
  to->Number(Field::kWaiter, facts.waiter);
  to->Number(Field::kSignature, facts.signature);
}

void AddCommunicator(const reader::Communicator& on, Fields* to) {
  to->Text(Field::kCommunicator, on.id != 0 ? diagnosis::Hex16(on.id) : "");
  if ((on.flags & format::kCommRankUnknown) == 0) to->Number(Field::kCommunicatorRank, std::uint64_t{on.rank});
  to->Number(Field::kCommunicatorSize, std::uint64_t{on.size});
  to->Text(Field::kCommunicatorFlags, fmt::format("{}", fmt::join(CommunicatorFlagNames(on.flags), " ")));
  to->Text(Field::kLabel, Printable(on.label));
}

void AddKernelTime(const format::KernelTime& kernel, Fields* to) {
  if (kernel.clock == format::KernelClock::kNone) return;
  to->Number(Field::kKernelNs, kernel.ns);
  to->Text(Field::kKernelClock, kernel.clock == format::KernelClock::kGpu ? "gpu" : "proxy");
  to->Text(Field::kAlgorithm, std::string(format::Name(kernel.algorithm)));
  to->Text(Field::kProtocol, std::string(format::Name(kernel.protocol)));
  to->Number(Field::kChannels, std::uint64_t{kernel.channels});
}

}  // namespace

std::vector<FieldValue> FieldsOf(const MergedCall& merged, const Facts& facts, Sites* sites) {
  const reader::Call& call = facts.call;
  Fields to;
  to.Number(Field::kSeq, call.slot);
  to.Number(Field::kPosition, facts.position);
  to.Number(Field::kCount, facts.count);
  to.Number(Field::kBytes, facts.bytes);
  to.Text(Field::kDtype, DtypeText(call.dtype));
  to.Text(Field::kReduction, ReductionText(call.reduction));
  to.Number(Field::kRoot, facts.root);
  to.Number(Field::kPeer, facts.peer);
  to.Number(Field::kTag, facts.tag);
  if (facts.communicator) AddCommunicator(*facts.communicator, &to);
  if (call.stream != 0) to.Text(Field::kStream, diagnosis::Hex(call.stream));
  to.Number(Field::kGroup, facts.group);
  to.Text(Field::kState, std::string(Name(facts.standing.state)));
  if (facts.standing.pending) to.Number(Field::kPending, std::uint64_t{1});
  if (facts.has_result) to.Text(Field::kResult, ResultText(call.result));
  to.Text(Field::kFlags, fmt::format("{}", fmt::join(FlagNames(call.flags), " ")));
  to.Text(Field::kLibrary, std::string(LibraryText(call.function)));
  if (const Site* const site = sites->Of(merged)) to.Text(Field::kSiteText, Printable(site->text));
  AddTimes(facts, &to);
  AddKernelTime(call.kernel, &to);
  return to.Take();
}

}  // namespace ncclwatch::analyzer::exporting
