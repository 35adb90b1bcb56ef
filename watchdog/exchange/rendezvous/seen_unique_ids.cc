#include "watchdog/exchange/rendezvous/seen_unique_ids.h"

#include <algorithm>
#include <atomic>

#include "watchdog/exchange/rendezvous/token.h"

namespace ncclwatch::exchange {
namespace {

enum State : int { kFree, kBeingWritten, kWhole };

struct Slot {
  std::atomic<int> state{kFree};
  std::array<std::uint8_t, kUniqueIdBytes> id{};  // constant once the state is kWhole, which is stored with release
};
constinit std::array<Slot, kNotedIds> slots{};

}  // namespace

void NoteUniqueId(UniqueId id) {
  for (Slot& slot : slots) {
    int state = slot.state.load(std::memory_order_acquire);
    if (state == kFree && slot.state.compare_exchange_strong(state, kBeingWritten, std::memory_order_acq_rel)) {
      std::copy(id.begin(), id.end(), slot.id.begin());
      slot.state.store(kWhole, std::memory_order_release);
      return;
    }
    if (state == kWhole && std::equal(id.begin(), id.end(), slot.id.begin())) return;
  }
}

std::vector<std::array<std::uint8_t, kUniqueIdBytes>> NotedUniqueIds() {
  std::vector<std::array<std::uint8_t, kUniqueIdBytes>> ids;
  for (const Slot& slot : slots)
    if (slot.state.load(std::memory_order_acquire) == kWhole) ids.push_back(slot.id);
  return ids;
}

Address AddressFromNotedIds(const settings::BindAddress& bind) {
  for (const auto& id : NotedUniqueIds()) {
    const std::optional<Tail> tail = TailOf(id);
    if (!tail) continue;
    Address address = AddressOf(*tail);
    address.port = settings::InRange(bind, address.port);
    return address;
  }
  return {};
}

std::vector<Token> TokensOfNotedIds(const char* nccl_comm_id) {
  std::vector<Token> tokens;
  if (nccl_comm_id && *nccl_comm_id) return tokens;
  for (const auto& id : NotedUniqueIds()) tokens.push_back(TokenOfUniqueId(id));
  return tokens;
}

}  // namespace ncclwatch::exchange
