#include "analyzer/meanwhile/waits.h"

#include <algorithm>
#include <map>
#include <variant>

#include "analyzer/jobs/locate.h"
#include "watchdog/reader/load.h"

namespace ncclwatch::meanwhile {
namespace {

using format::CommunicatorState;
using reader::Load;

// Identities that ranks of several processes have in common.
bool Counts(const format::Communicator& entry) {
  const auto state = static_cast<CommunicatorState>(Load(entry.state));
  const std::uint32_t unknown = format::kCommIdentityUnknown | format::kCommGrown;
  return state == CommunicatorState::kReady && Load(entry.size) > 1 && (Load(entry.flags) & unknown) == 0;
}

}  // namespace

std::uint64_t Waits::Member::entered() const { return Load(box->communicator(index).entered); }
bool Waits::Member::there() const { return Load(box->communicator(index).generation) == generation; }

Waits::Waits(const std::string& directory, const std::set<std::uint32_t>& late) : late_(late) {
  for (const std::string& path : analyzer::BoxFiles(directory)) {
    auto opened = reader::MappedBox::Open(path);
    if (auto* const box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened)) boxes_.push_back(std::move(*box));
  }
  Refresh();
}

void Waits::Refresh() {
  std::erase_if(boxes_, [](const auto& box) { return !box->StillWhole(); });
  std::map<std::uint64_t, std::vector<Member>> others;  // by identity
  std::map<std::uint64_t, std::vector<Member>> own;
  for (const auto& box : boxes_)
    for (std::uint32_t index = 0; index < box->communicators(); ++index) {
      const format::Communicator& entry = box->communicator(index);
      if (!Counts(entry)) continue;
      const bool is_late = late_.contains(box->header().identity.pid);
      (is_late ? own : others)[Load(entry.id)].push_back({box.get(), index, Load(entry.generation)});
    }
  meetings_.clear();
  for (const auto& [id, members] : own)
    for (const Member& member : members)
      meetings_.push_back({member, static_cast<std::uint32_t>(member.box->header().identity.pid), others[id]});
}

std::uint32_t Waits::ThreadOf(std::uint32_t pid) const {
  constexpr std::uint64_t kNewest = 16;
  reader::Call call;
  for (const auto& box : boxes_) {
    if (box->header().identity.pid != pid) continue;
    const std::uint64_t head = box->head();
    for (std::uint64_t i = 1; i <= std::min(head, kNewest); ++i)
      if (box->Read(head - i, &call)) return call.thread;
  }
  return 0;
}

std::optional<std::uint64_t> Waits::For(std::uint32_t pid) const {
  constexpr int kPositionBits = 44;
  for (const Meeting& one : meetings_) {
    if (one.pid != pid || one.others.empty() || !one.late.there()) continue;
    const std::uint64_t entered = one.late.entered();
    const bool all_wait = std::all_of(one.others.begin(), one.others.end(),
                                      [&](const Member& other) { return !other.there() || other.entered() > entered; });
    if (all_wait) return static_cast<std::uint64_t>(one.late.index) << kPositionBits | entered;
  }
  return std::nullopt;
}

}  // namespace ncclwatch::meanwhile
