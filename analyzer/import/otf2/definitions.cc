#include "analyzer/import/otf2/definitions.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <memory>

#include "analyzer/import/base/call_fields.h"
#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import::otf2 {
namespace {

constexpr std::int64_t kBegin_ns = 1'000'000'000;  // of a trace without a wall clock: 0 is no instant

Definitions* To(void* user) { return static_cast<Definitions*>(user); }

OTF2_CallbackCode OnClock(void* user, std::uint64_t ticks, std::uint64_t offset, std::uint64_t,
                          std::uint64_t realtime) {
  Definitions* const to = To(user);
  to->ticks_per_second = std::max<std::uint64_t>(ticks, 1);
  to->first_tick = offset;
  if (realtime != OTF2_UNDEFINED_TIMESTAMP) to->realtime_ns = static_cast<std::int64_t>(realtime);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnString(void* user, OTF2_StringRef self, const char* text) {
  To(user)->strings[self] = text;
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnNode(void* user, OTF2_SystemTreeNodeRef self, OTF2_StringRef name, OTF2_StringRef,
                         OTF2_SystemTreeNodeRef) {
  To(user)->nodes[self] = To(user)->Text(name);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnProcess(void* user, OTF2_LocationGroupRef self, OTF2_StringRef name, OTF2_LocationGroupType,
                            OTF2_SystemTreeNodeRef node, OTF2_LocationGroupRef) {
  Process& process = To(user)->processes[self];
  process.name = To(user)->Text(name);
  process.node = node;
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnProcessProperty(void* user, OTF2_LocationGroupRef self, OTF2_StringRef name, OTF2_Type type,
                                    OTF2_AttributeValue value) {
  if (type == OTF2_TYPE_UINT32 && To(user)->Text(name) == Described(Field::kPid).name)
    To(user)->processes[self].pid = value.uint32;
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnLocation(void* user, OTF2_LocationRef self, OTF2_StringRef name, OTF2_LocationType, std::uint64_t,
                             OTF2_LocationGroupRef process) {
  const bool fresh = To(user)->locations.insert_or_assign(self, Location{To(user)->Text(name), process}).second;
  if (fresh) To(user)->processes[process].locations.push_back(self);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnRegion(void* user, OTF2_RegionRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_StringRef,
                           OTF2_RegionRole role, OTF2_Paradigm, OTF2_RegionFlag, OTF2_StringRef, std::uint32_t,
                           std::uint32_t) {
  To(user)->regions[self] = {To(user)->Text(name), role == OTF2_REGION_ROLE_ARTIFICIAL};
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnGroup(void* user, OTF2_GroupRef self, OTF2_StringRef, OTF2_GroupType type, OTF2_Paradigm paradigm,
                          OTF2_GroupFlag, std::uint32_t count, const std::uint64_t* members) {
  To(user)->groups[self] = {type, paradigm, {members, members + count}};
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnComm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef group, OTF2_CommRef,
                         OTF2_CommFlag) {
  To(user)->comms[self] = {To(user)->Text(name), group};
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode OnAttribute(void* user, OTF2_AttributeRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_Type) {
  To(user)->attributes[self] = To(user)->Text(name);
  return OTF2_CALLBACK_SUCCESS;
}

// "MPI Rank 3", "rank 3"; -1: no number.
int NumberAtEnd(const std::string& name) {
  const std::size_t begin = name.find_last_not_of("0123456789") + 1;
  int rank = -1;
  const bool read = begin < name.size() && absl::SimpleAtoi(name.substr(begin), &rank);
  return read && rank < static_cast<int>(reader::kMaxCommunicatorSize) ? rank : -1;
}

}  // namespace

std::string Definitions::Text(OTF2_StringRef text) const {
  const auto found = strings.find(text);
  return found == strings.end() ? std::string() : found->second;
}

std::int64_t Definitions::Nanoseconds(OTF2_TimeStamp ticks) const {
  const auto since = static_cast<__int128>(ticks) - first_tick;
  const auto ns = since * 1'000'000'000 / ticks_per_second;
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  const auto kept = std::clamp<__int128>(ns, 0, kMost);
  return static_cast<std::int64_t>(kept) + (realtime_ns == 0 ? kBegin_ns : 0);
}

int Definitions::RankOf(OTF2_LocationGroupRef process) const {
  const auto found = processes.find(process);
  if (found == processes.end()) return -1;
  for (const auto& [ref, group] : groups) {
    if (group.type != OTF2_GROUP_TYPE_COMM_LOCATIONS || group.paradigm != OTF2_PARADIGM_MPI) continue;
    for (const OTF2_LocationRef location : found->second.locations) {
      const auto place = std::find(group.members.begin(), group.members.end(), location);
      if (place != group.members.end()) return static_cast<int>(place - group.members.begin());
    }
  }
  return NumberAtEnd(found->second.name);
}

int Definitions::RankInName(OTF2_LocationGroupRef process) const {
  const auto found = processes.find(process);
  return found == processes.end() ? -1 : NumberAtEnd(found->second.name);
}

std::vector<int> Definitions::RanksOf(const Comm& comm) const {
  const auto found = groups.find(comm.group);
  if (found == groups.end() || found->second.type != OTF2_GROUP_TYPE_COMM_GROUP) return {};
  std::vector<int> ranks;
  for (const std::uint64_t member : found->second.members)
    ranks.push_back(member < reader::kMaxCommunicatorSize ? static_cast<int>(member) : -1);
  return ranks;
}

OTF2_ErrorCode ReadDefinitions(OTF2_Reader* reader, Definitions* definitions) {
  OTF2_GlobalDefReader* const from = OTF2_Reader_GetGlobalDefReader(reader);
  if (!from) return OTF2_ERROR_INVALID;
  const std::unique_ptr<OTF2_GlobalDefReaderCallbacks, void (*)(OTF2_GlobalDefReaderCallbacks*)> callbacks(
      OTF2_GlobalDefReaderCallbacks_New(), OTF2_GlobalDefReaderCallbacks_Delete);
  OTF2_GlobalDefReaderCallbacks* const to = callbacks.get();
  OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(to, OnClock);
  OTF2_GlobalDefReaderCallbacks_SetStringCallback(to, OnString);
  OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(to, OnNode);
  OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(to, OnProcess);
  OTF2_GlobalDefReaderCallbacks_SetLocationGroupPropertyCallback(to, OnProcessProperty);
  OTF2_GlobalDefReaderCallbacks_SetLocationCallback(to, OnLocation);
  OTF2_GlobalDefReaderCallbacks_SetRegionCallback(to, OnRegion);
  OTF2_GlobalDefReaderCallbacks_SetGroupCallback(to, OnGroup);
  OTF2_GlobalDefReaderCallbacks_SetCommCallback(to, OnComm);
  OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(to, OnAttribute);
  OTF2_Reader_RegisterGlobalDefCallbacks(reader, from, to, definitions);
  std::uint64_t count = 0;
  return OTF2_Reader_ReadAllGlobalDefinitions(reader, from, &count);
}

}  // namespace ncclwatch::analyzer::import::otf2
