#include "shim/process/rendezvous.h"

#include <cstdlib>
#include <exception>
#include <span>

#include "shim/base/keep_errno.h"
#include "shim/resolve/libraries.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/seen_unique_ids.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/settings/excluded.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::shim {
namespace {

using exchange::kUniqueIdBytes;

std::optional<std::string_view> Variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string_view>(value) : std::nullopt;
}

// Several nodes, to be looked for, and nothing else that tells where. Goes by the environment alone: a file or process
// looked at would be a point at which the application's thread may be cancelled.
bool NeedsPlace() {
  const settings::Settings settings = settings::OfThisProcess();
  if (!settings.on || settings.exchange != "auto" || settings::IsExcluded(settings.exclude)) return false;
  const rundir::Place place = rundir::PlaceFrom(Variable);
  return place.local_world_size > 0 && place.world_size > place.local_world_size &&
         exchange::AddressFromLauncher(Variable).kind == exchange::Address::Kind::kNone;
}

}  // namespace

void OfferMeetingPlace(std::uint32_t library, char* id) noexcept {
  const KeepErrno keep;
  try {
    int version = 0;
    if (!resolve::Version(library, &version) || !exchange::HasTail(version, std::getenv("NCCL_COMM_ID"))) return;
    if (NeedsPlace())
      exchange::OfferPlace(
          std::span<std::uint8_t, kUniqueIdBytes>(reinterpret_cast<std::uint8_t*>(id), kUniqueIdBytes));
  } catch (const std::exception&) {  // no memory: the id stays as NCCL made it
  }
}

void NoteMeetingPlace(const char* id) noexcept {
  exchange::NoteUniqueId(exchange::UniqueId(reinterpret_cast<const std::uint8_t*>(id), kUniqueIdBytes));
}

}  // namespace ncclwatch::shim
