#include "analyzer/export/calls/otf2.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>
#include <otf2/otf2.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "analyzer/export/calls/call_fields.h"
#include "analyzer/export/calls/otf2_communicators.h"
#include "analyzer/export/calls/otf2_mpi.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer::exporting {
namespace {

constexpr std::uint64_t kTicks = 1'000'000'000;  // of a second

OTF2_FlushType Flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) { return OTF2_FLUSH; }
OTF2_TimeStamp FlushTime(void*, OTF2_FileType, OTF2_LocationRef) { return 0; }
constexpr OTF2_FlushCallbacks kFlush = {Flush, FlushTime};

OTF2_RegionRole RoleOf(functions::Function function) {
  if (functions::IsCollective(function)) return OTF2_REGION_ROLE_COLL_ALL2ALL;
  return functions::IsMessage(function) ? OTF2_REGION_ROLE_POINT2POINT : OTF2_REGION_ROLE_FUNCTION;
}

class Otf2 : public CallExporter {
 public:
  Otf2(const Source& source, std::string folder)
      : CallExporter(source), folder_(std::move(folder)), communicators_(source.recording), mpi_(communicators_) {}
  ~Otf2() override {
    OTF2_AttributeList_Delete(attributes_);
    if (archive_) OTF2_Archive_Close(archive_);
  }

  absl::Status Open() {
    std::error_code error;
    if (std::filesystem::exists(folder_, error) && !std::filesystem::is_empty(folder_, error))
      return absl::AlreadyExistsError(folder_ + ": is there already");
    archive_ = OTF2_Archive_Open(folder_.c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN,
                                 OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!archive_) return absl::PermissionDeniedError(folder_ + ": OTF2 cannot be written there");
    OTF2_Archive_SetFlushCallbacks(archive_, &kFlush, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive_);
    OTF2_Archive_SetCreator(archive_, import::kCreator);
    OTF2_Archive_OpenEvtFiles(archive_);
    TextOf("");
    return absl::OkStatus();
  }

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    Location& at = LocationOf(merged.number, facts.call.thread);
    if (!at.writer) return absl::UnavailableError(folder_ + ": OTF2 cannot write more files");
    if (zero_ns_ == 0) zero_ns_ = facts.time_ns;
    // No time goes backwards: clocks of threads are read before slots are taken.
    const std::int64_t entered = std::max(facts.time_ns, at.until_ns),
                       left = std::max(entered, facts.returned_ns.value_or(facts.time_ns + facts.duration_ns));
    at.until_ns = left;
    last_ns_ = std::max(last_ns_, left);
    Describe(merged, facts);
    const OTF2_RegionRef region = RegionOf(facts.call.function);
    const bool began = OTF2_EvtWriter_Enter(at.writer, attributes_, Ticks(entered), region) == OTF2_SUCCESS;
    at.events += mpi_.Enter(at.writer, Ticks(entered), merged);
    at.events += mpi_.Leave(at.writer, Ticks(left), merged);
    const bool ended = OTF2_EvtWriter_Leave(at.writer, nullptr, Ticks(left), region) == OTF2_SUCCESS;
    if (!began || !ended) return absl::UnavailableError(folder_ + ": an event could not be written");
    at.events += 2;
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    OTF2_ErrorCode first = OTF2_SUCCESS;  // what is buffered is written by these
    const auto keep = [&](OTF2_ErrorCode code) { first = first == OTF2_SUCCESS ? code : first; };
    for (const std::size_t process : communicators_.Processes()) AnyLocationOf(process);
    for (auto& [key, location] : locations_) keep(OTF2_Archive_CloseEvtWriter(archive_, location.writer));
    keep(OTF2_Archive_CloseEvtFiles(archive_));
    keep(OTF2_Archive_OpenDefFiles(archive_));
    for (const auto& [key, location] : locations_)
      keep(OTF2_Archive_CloseDefWriter(archive_, OTF2_Archive_GetDefWriter(archive_, location.number)));
    keep(OTF2_Archive_CloseDefFiles(archive_));
    WriteDefinitions(OTF2_Archive_GetGlobalDefWriter(archive_));
    keep(OTF2_Archive_Close(archive_));
    archive_ = nullptr;
    if (first != OTF2_SUCCESS)
      return absl::UnavailableError(fmt::format("{}: {}", folder_, OTF2_Error_GetDescription(first)));
    if (mpi_.not_named() != 0)
      notes_.push_back(
          fmt::format("{} messages and collectives have no record of their own: of their communicators "
                      "not all ranks are recorded",
                      mpi_.not_named()));
    files_.push_back(folder_ + "/traces.otf2");
    return absl::OkStatus();
  }

 private:
  using ThreadKey = std::pair<std::size_t, std::uint32_t>;  // process, thread
  struct Location {
    OTF2_LocationRef number = 0;
    OTF2_EvtWriter* writer = nullptr;
    std::int64_t until_ns = 0;
    std::uint64_t events = 0;
  };

  std::uint64_t Ticks(std::int64_t ns) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns - zero_ns_));
  }

  Location& LocationOf(std::size_t process, std::uint32_t thread) {
    Location& location = locations_[{process, thread}];
    if (!location.writer) {
      location.number = locations_.size() - 1;
      location.writer = OTF2_Archive_GetEvtWriter(archive_, location.number);
    }
    return location;
  }

  // Of a process without a wanted call, one without events.
  Location& AnyLocationOf(std::size_t process) {
    const auto first = locations_.lower_bound({process, 0});
    const bool has = first != locations_.end() && first->first.first == process;
    return has ? first->second : LocationOf(process, source_.recording.processes()[process].process().pid);
  }

  // In the order of their numbers, as readers expect definitions.
  template <typename Map>
  static auto ByNumber(const Map& numbered) {
    std::vector<std::pair<typename Map::mapped_type, typename Map::key_type>> all;
    for (const auto& [key, number] : numbered) all.emplace_back(number, key);
    std::sort(all.begin(), all.end());
    return all;
  }

  // Numbers of strings, each written once, at the end.
  OTF2_StringRef TextOf(const std::string& text) {
    return texts_.try_emplace(text, static_cast<OTF2_StringRef>(texts_.size())).first->second;
  }
  OTF2_RegionRef RegionOf(functions::Function function) {
    return regions_.try_emplace(function, static_cast<OTF2_RegionRef>(regions_.size())).first->second;
  }

  void Describe(const MergedCall& merged, const Facts& facts) {
    OTF2_AttributeList_RemoveAllAttributes(attributes_);
    for (const FieldValue& one : FieldsOf(merged, facts, &source_.sites)) {
      const auto attribute = static_cast<OTF2_AttributeRef>(one.field);
      if (const auto* const text = std::get_if<std::string>(&one.value))
        OTF2_AttributeList_AddStringRef(attributes_, attribute, TextOf(*text));
      else
        OTF2_AttributeList_AddInt64(attributes_, attribute, std::get<std::int64_t>(one.value));
    }
  }

  // Hosts, processes on them, threads in those. Readers want a string before what names it: all are numbered first.
  void WriteDefinitions(OTF2_GlobalDefWriter* to) {
    OTF2_GlobalDefWriter_WriteClockProperties(to, kTicks, 0, Ticks(last_ns_) + 1, static_cast<std::uint64_t>(zero_ns_));
    NumberNames();
    for (const auto& [number, text] : ByNumber(texts_)) OTF2_GlobalDefWriter_WriteString(to, number, text.c_str());
    const OTF2_StringRef none = TextOf("");
    for (std::size_t i = 0; i < std::size(import::kCallFields); ++i) {
      const import::CallField& field = import::kCallFields[i];
      OTF2_GlobalDefWriter_WriteAttribute(to, static_cast<OTF2_AttributeRef>(i), TextOf(std::string(field.name)), none,
                                          field.type == import::FieldType::kText ? OTF2_TYPE_STRING : OTF2_TYPE_INT64);
    }
    for (const auto& [number, function] : ByNumber(regions_)) {
      const OTF2_StringRef name = TextOf(OpText(function));
      const OTF2_Paradigm paradigm = functions::IsMpi(function) ? OTF2_PARADIGM_MPI : OTF2_PARADIGM_CUDA;
      OTF2_GlobalDefWriter_WriteRegion(to, number, name, name, none, RoleOf(function), paradigm, OTF2_REGION_FLAG_NONE,
                                       none, 0, 0);
    }
    constexpr OTF2_SystemTreeNodeRef kJob = 0;
    OTF2_GlobalDefWriter_WriteSystemTreeNode(to, kJob, TextOf(kJobName), TextOf(kJobName),
                                             OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    const std::map<std::size_t, OTF2_SystemTreeNodeRef> nodes = WriteHosts(to, kJob);
    for (const auto& [process, node] : nodes) WriteProcess(to, static_cast<OTF2_LocationGroupRef>(process), node);
    std::map<OTF2_LocationRef, std::pair<ThreadKey, std::uint64_t>> numbered;
    for (const auto& [key, location] : locations_) numbered[location.number] = {key, location.events};
    for (const auto& [number, of] : numbered) {
      const auto& [key, events] = of;
      OTF2_GlobalDefWriter_WriteLocation(to, number, TextOf(ThreadName(key.second)), OTF2_LOCATION_TYPE_CPU_THREAD,
                                         events, static_cast<OTF2_LocationGroupRef>(key.first));
    }
    communicators_.Write(
        to, [this](const std::string& text) { return TextOf(text); },
        [this](std::size_t process) { return AnyLocationOf(process).number; });
  }

  // The node of each process.
  std::map<std::size_t, OTF2_SystemTreeNodeRef> WriteHosts(OTF2_GlobalDefWriter* to, OTF2_SystemTreeNodeRef job) {
    std::map<std::string, OTF2_SystemTreeNodeRef> hosts;
    std::map<std::size_t, OTF2_SystemTreeNodeRef> nodes;
    for (const auto& [key, location] : locations_) {
      const std::string host = HostOf(key.first);
      const auto [node, is_new] = hosts.try_emplace(host, static_cast<OTF2_SystemTreeNodeRef>(hosts.size() + 1));
      if (is_new) OTF2_GlobalDefWriter_WriteSystemTreeNode(to, node->second, TextOf(host), TextOf(kNode), job);
      nodes[key.first] = node->second;
    }
    return nodes;
  }

  void WriteProcess(OTF2_GlobalDefWriter* to, OTF2_LocationGroupRef process, OTF2_SystemTreeNodeRef host) {
    OTF2_GlobalDefWriter_WriteLocationGroup(to, process, TextOf(RankName(process)), OTF2_LOCATION_GROUP_TYPE_PROCESS,
                                            host, OTF2_UNDEFINED_LOCATION_GROUP);
    OTF2_AttributeValue pid;
    pid.uint32 = source_.recording.processes()[process].process().pid;
    OTF2_GlobalDefWriter_WriteLocationGroupProperty(
        to, process, TextOf(std::string(Described(import::Field::kPid).name)), OTF2_TYPE_UINT32, pid);
  }

  void NumberNames() {
    for (const import::CallField& field : import::kCallFields) TextOf(std::string(field.name));
    for (const auto& [function, number] : regions_) TextOf(OpText(function));
    for (const char* name : {kJobName, kNode}) TextOf(name);
    for (const std::string& name : communicators_.Names()) TextOf(name);
    for (const auto& [key, location] : locations_) {
      TextOf(HostOf(key.first));
      TextOf(RankName(key.first));
      TextOf(ThreadName(key.second));
    }
  }
  std::string HostOf(std::size_t process) const {
    return Printable(source_.recording.processes()[process].process().host);
  }
  std::string RankName(std::size_t process) const {
    return fmt::format("rank {}", source_.recording.processes()[process].rank());
  }
  static std::string ThreadName(std::uint32_t thread) { return fmt::format("thread {}", thread); }
  static constexpr char kJobName[] = "job", kNode[] = "node";

  const std::string folder_;
  const Otf2Communicators communicators_;
  Otf2Mpi mpi_;
  OTF2_Archive* archive_ = nullptr;
  OTF2_AttributeList* attributes_ = OTF2_AttributeList_New();
  std::map<ThreadKey, Location> locations_;
  absl::flat_hash_map<std::string, OTF2_StringRef> texts_;
  absl::flat_hash_map<functions::Function, OTF2_RegionRef> regions_;
  std::int64_t zero_ns_ = 0, last_ns_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> ToOtf2(const Source& source, const std::string& folder) {
  auto otf2 = std::make_unique<Otf2>(source, folder);
  if (absl::Status status = otf2->Open(); !status.ok()) return status;
  return otf2;
}

}  // namespace ncclwatch::analyzer::exporting
