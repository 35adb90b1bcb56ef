#include "shim/mpi/wrappers/finalize_report.h"

#include "shim/mpi/communicators/windows.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/requests/requests.h"

namespace ncclwatch::shim::mpi {
namespace {

constexpr Wrong kLeft[kObjectKinds] = {Wrong::kLeftCommunicators, Wrong::kLeftGroups, Wrong::kLeftOperators,
                                       Wrong::kLeftWindows,       Wrong::kLeftFiles,  Wrong::kLeftTypes,
                                       Wrong::kLeftRequests};

// Objects of one sort that were made at one place.
struct Place {
  std::uint64_t made_at = 0;
  functions::Function made_by{};
  std::uint64_t number = 0;
};
class Places {
 public:
  void Add(std::uint64_t made_at, std::uint32_t made_by) {
    for (Place& place : places_) {
      if (place.number != 0 && place.made_at != made_at) continue;
      place = {made_at, static_cast<functions::Function>(made_by), place.number + 1};
      return;
    }
  }
  void Report(Call& finalize, Wrong wrong) const {
    for (const Place& place : places_) {
      if (place.number == 0) return;
      finalize.misuse = 0;  // several things may be wrong with it
      mpi::Report(finalize, {.wrong = wrong,
                             .value = static_cast<std::int64_t>(place.number),
                             .made_at = place.made_at,
                             .made_by = place.made_by});
    }
  }

 private:
  Place places_[16];  // further ones are not told
};

}  // namespace

void ReportLeft(Call& finalize) {
  for (std::size_t kind = 0; kind < kObjectKinds; ++kind) {
    if (!InSight(static_cast<ObjectKind>(kind))) continue;
    Places left, open;
    if (kind < kOwnMaps)
      lives[kind].ForEach([&](std::uint64_t, const Life& life) {
        if (life.references > 0) left.Add(life.made_at, life.made_by);
      });
    else if (kind == static_cast<std::size_t>(ObjectKind::kDatatype))
      ForEachDatatype([&](const Datatype& type) {
        if (type.references > 0) left.Add(type.made_at, type.made_by);
      });
    else
      requests.ForEach([&](std::uint64_t, const Request& request) {
        if (request.active || (request.persistent && !request.done))
          (request.active ? open : left).Add(request.site, request.function);
      });
    open.Report(finalize, Wrong::kNeverCompleted);
    left.Report(finalize, kLeft[kind]);
  }
  ReportOpenEpochs(finalize);
  finalize.misuse = 0;  // what MPI_Finalize returns says nothing of them
}

void TakeBackUncertain(Box& box) {
  for (std::size_t kind = 0; kind < kObjectKinds; ++kind)
    if (!InSight(static_cast<ObjectKind>(kind))) TakeBack(box, kLeft[kind]);
  if (!InSight(ObjectKind::kRequest)) TakeBack(box, Wrong::kNeverCompleted);
  if (!InSight(ObjectKind::kWindow)) TakeBack(box, Wrong::kNeverClosed);
}

}  // namespace ncclwatch::shim::mpi
