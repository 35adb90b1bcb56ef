#include "analyzer/import/otf2/archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "analyzer/import/base/call_fields.h"
#include "analyzer/import/base/json_lines.h"
#include "analyzer/import/otf2/definitions.h"
#include "analyzer/import/otf2/process_events.h"

namespace ncclwatch::analyzer::import::otf2 {
namespace {

namespace fs = std::filesystem;

// What the library says of the first error, which it would print else.
class Complaints {
 public:
  Complaints() { OTF2_Error_RegisterCallback(&Complaints::Add, this); }
  ~Complaints() { OTF2_Error_RegisterCallback(nullptr, nullptr); }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  std::string Take(OTF2_ErrorCode code) {
    std::string text = std::exchange(text_, {});
    return text.empty() ? std::string(OTF2_Error_GetDescription(code)) : text;
  }

 private:
  static OTF2_ErrorCode Add(void* self, const char*, std::uint64_t, const char*, OTF2_ErrorCode code,
                            const char* format, va_list values) {
    char text[256] = "";
    if (format) std::vsnprintf(text, sizeof text, format, values);
    std::string& first = static_cast<Complaints*>(self)->text_;
    if (first.empty() && code > OTF2_SUCCESS) first = fmt::format("{}: {}", OTF2_Error_GetDescription(code), text);
    return code;
  }

  std::string text_;
};

// Events of what `export` wrote have all that the call was.
class OwnEvents {
 public:
  OwnEvents(const Definitions& definitions, OTF2_LocationGroupRef process, LinesToTraces* lines)
      : definitions_(definitions), lines_(*lines) {
    const Process& own = definitions.processes.at(process);
    common_[Described(Field::kPid).name] = own.pid;
    common_[Described(Field::kRank).name] = definitions.RankInName(process);
    if (const auto node = definitions.nodes.find(own.node); node != definitions.nodes.end())
      common_[Described(Field::kHost).name] = node->second;
  }
  void Begin(OTF2_LocationRef location) {
    const std::string& name = definitions_.locations.at(location).name;  // "thread 4711"
    common_[Described(Field::kThread).name] =
        std::strtoul(name.c_str() + std::min<std::size_t>(name.size(), 7), nullptr, 10);
  }
  void Enter(const OTF2_AttributeList* attributes, OTF2_RegionRef region) {
    nlohmann::json fields = common_;
    for (std::uint32_t i = 0; i < OTF2_AttributeList_GetNumberOfElements(attributes); ++i) {
      OTF2_AttributeRef attribute = 0;
      OTF2_Type type = OTF2_TYPE_NONE;
      OTF2_AttributeValue value;
      OTF2_AttributeList_GetAttributeByIndex(attributes, i, &attribute, &type, &value);
      const auto name = definitions_.attributes.find(attribute);
      if (name == definitions_.attributes.end()) continue;
      if (type == OTF2_TYPE_STRING) fields[name->second] = definitions_.Text(value.stringRef);
      if (type == OTF2_TYPE_INT64) fields[name->second] = value.int64;
    }
    if (const auto found = definitions_.regions.find(region); found != definitions_.regions.end())
      fields["op"] = found->second.name;
    if (!lines_.Add(LineOf(std::move(fields))).empty()) ++damaged_;
  }
  std::uint64_t damaged() const { return damaged_; }

 private:
  const Definitions& definitions_;
  LinesToTraces& lines_;
  nlohmann::json common_ = nlohmann::json::object();
  std::uint64_t damaged_ = 0;
};

// Whose events are read.
struct Target {
  std::optional<ProcessEvents> foreign;
  std::optional<OwnEvents> own;
};

// ---- records -----------------------------------------------------------------------------------------------------

using Attributes = const OTF2_AttributeList*;

void OnEnter(Target& to, OTF2_TimeStamp time, Attributes attributes, OTF2_RegionRef region) {
  to.own ? to.own->Enter(attributes, region) : to.foreign->Enter(time, region);
}
void OnLeave(Target& to, OTF2_TimeStamp time, Attributes, OTF2_RegionRef region) {
  if (to.foreign) to.foreign->Leave(time, region);
}
void OnSend(Target& to, OTF2_TimeStamp time, Attributes, std::uint32_t peer, OTF2_CommRef comm, std::uint32_t tag,
            std::uint64_t bytes) {
  if (to.foreign) to.foreign->Send(time, {comm, peer, tag, bytes});
}
void OnReceive(Target& to, OTF2_TimeStamp time, Attributes, std::uint32_t peer, OTF2_CommRef comm, std::uint32_t tag,
               std::uint64_t bytes) {
  if (to.foreign) to.foreign->Receive(time, {comm, peer, tag, bytes});
}
void OnBeginSend(Target& to, OTF2_TimeStamp time, Attributes, std::uint32_t peer, OTF2_CommRef comm, std::uint32_t tag,
                 std::uint64_t bytes, std::uint64_t request) {
  if (to.foreign) to.foreign->BeginSend(time, {comm, peer, tag, bytes}, request);
}
void OnEndSend(Target& to, OTF2_TimeStamp time, Attributes, std::uint64_t request) {
  if (to.foreign) to.foreign->EndSend(time, request);
}
void OnBeginReceive(Target& to, OTF2_TimeStamp time, Attributes, std::uint64_t request) {
  if (to.foreign) to.foreign->BeginReceive(time, request);
}
void OnEndReceive(Target& to, OTF2_TimeStamp time, Attributes, std::uint32_t peer, OTF2_CommRef comm, std::uint32_t tag,
                  std::uint64_t bytes, std::uint64_t request) {
  if (to.foreign) to.foreign->EndReceive(time, {comm, peer, tag, bytes}, request);
}
void OnCancel(Target& to, OTF2_TimeStamp time, Attributes, std::uint64_t request) {
  if (to.foreign) to.foreign->Cancel(time, request);
}
void OnCollective(Target& to, OTF2_TimeStamp, Attributes, OTF2_CollectiveOp, OTF2_CommRef comm, std::uint32_t root,
                  std::uint64_t sent, std::uint64_t received) {
  if (to.foreign) to.foreign->Collective({.comm = comm, .peer = root, .bytes = std::max(sent, received)});
}
void OnBeginCollective(Target& to, OTF2_TimeStamp, Attributes, std::uint64_t request) {
  if (to.foreign) to.foreign->BeginCollective(request);
}
void OnEndCollective(Target& to, OTF2_TimeStamp time, Attributes, OTF2_CollectiveOp, OTF2_CommRef comm,
                     std::uint32_t root, std::uint64_t sent, std::uint64_t received, std::uint64_t request) {
  if (to.foreign)
    to.foreign->EndCollective(time, {.comm = comm, .peer = root, .bytes = std::max(sent, received)}, request);
}

// As the library calls it.
template <auto kHandle, typename... Values>
OTF2_CallbackCode Forward(OTF2_LocationRef, OTF2_TimeStamp time, std::uint64_t, void* user,
                          OTF2_AttributeList* attributes, Values... values) {
  kHandle(*static_cast<Target*>(user), time, attributes, values...);
  return OTF2_CALLBACK_SUCCESS;
}

using Callbacks = std::unique_ptr<OTF2_EvtReaderCallbacks, void (*)(OTF2_EvtReaderCallbacks*)>;

Callbacks MakeCallbacks() {
  Callbacks made(OTF2_EvtReaderCallbacks_New(), OTF2_EvtReaderCallbacks_Delete);
  OTF2_EvtReaderCallbacks* const to = made.get();
  OTF2_EvtReaderCallbacks_SetEnterCallback(to, Forward<OnEnter>);
  OTF2_EvtReaderCallbacks_SetLeaveCallback(to, Forward<OnLeave>);
  OTF2_EvtReaderCallbacks_SetMpiSendCallback(to, Forward<OnSend>);
  OTF2_EvtReaderCallbacks_SetMpiRecvCallback(to, Forward<OnReceive>);
  OTF2_EvtReaderCallbacks_SetMpiIsendCallback(to, Forward<OnBeginSend>);
  OTF2_EvtReaderCallbacks_SetMpiIsendCompleteCallback(to, Forward<OnEndSend>);
  OTF2_EvtReaderCallbacks_SetMpiIrecvRequestCallback(to, Forward<OnBeginReceive>);
  OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(to, Forward<OnEndReceive>);
  OTF2_EvtReaderCallbacks_SetMpiRequestCancelledCallback(to, Forward<OnCancel>);
  OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(to, Forward<OnCollective>);
  OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(to, Forward<OnBeginCollective>);
  OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(to, Forward<OnEndCollective>);
  return made;
}

// ---- the archive -------------------------------------------------------------------------------------------------

class Archive {
 public:
  Archive(const std::string& anchor, absl::FunctionRef<void(const std::string&)> reads, Imported* imported)
      : anchor_(anchor),
        reads_(reads),
        imported_(*imported),
        reader_(OTF2_Reader_Open(anchor.c_str()), OTF2_Reader_Close) {}

  void Read(TakeTrace take) {
    reads_(anchor_);
    if (!reader_) return Fail(anchor_, OTF2_ERROR_INVALID);
    OTF2_Reader_SetSerialCollectiveCallbacks(reader_.get());
    std::uint64_t locations = 0;
    if (const auto code = OTF2_Reader_GetNumberOfLocations(reader_.get(), &locations); code != OTF2_SUCCESS)
      return Fail(anchor_, code);
    const std::string global = FileOf("def");
    reads_(global);
    // Processes whose definitions could be read are read even so.
    if (const auto code = ReadDefinitions(reader_.get(), &definitions_); code != OTF2_SUCCESS) Fail(global, code);
    for (const auto& [location, known] : definitions_.locations) OTF2_Reader_SelectLocation(reader_.get(), location);
    OTF2_Reader_OpenDefFiles(reader_.get());
    if (const auto code = OTF2_Reader_OpenEvtFiles(reader_.get()); code != OTF2_SUCCESS) return Fail(anchor_, code);
    ReadProcesses(take);
  }

 private:
  void ReadProcesses(TakeTrace take) {
    const bool own = IsOwn();
    LinesToTraces lines;
    for (const auto& [process, known] : definitions_.processes) {
      if (known.locations.empty()) continue;
      Target target;
      if (own)
        target.own.emplace(definitions_, process, &lines);
      else
        target.foreign.emplace(definitions_, process);
      for (const OTF2_LocationRef location : known.locations) ReadEvents(location, &target);
      if (target.foreign) take(target.foreign->Take());
      if (target.own && target.own->damaged() > 0)
        imported_.failures.push_back(
            {anchor_, fmt::format("{}: {} calls are not whole", known.name, target.own->damaged())});
    }
    lines.Take(Slots::kKept, take);
    if (!own)
      imported_.notes.push_back(
          "from an OTF2 archive: it holds sizes in bytes, no types or reductions, not whether a process lives, and no "
          "stacks");
  }

  bool IsOwn() {
    char* creator = nullptr;
    if (OTF2_Reader_GetCreator(reader_.get(), &creator) != OTF2_SUCCESS || !creator) return false;
    const std::unique_ptr<char, void (*)(void*)> owned(creator, std::free);
    return std::string_view(creator) == kCreator;
  }

  void ReadEvents(OTF2_LocationRef location, Target* target) {
    target->own ? target->own->Begin(location) : target->foreign->Begin(location);
    std::uint64_t count = 0;
    const std::string local = FileOf(fmt::format("{}/{}.def", Name(), location));
    reads_(local);
    // They translate the numbers in its events, and its clock.
    if (OTF2_DefReader* const from = OTF2_Reader_GetDefReader(reader_.get(), location)) {
      const auto code = OTF2_Reader_ReadAllLocalDefinitions(reader_.get(), from, &count);
      if (code != OTF2_SUCCESS) Fail(local, code);
      OTF2_Reader_CloseDefReader(reader_.get(), from);
    }
    const std::string events = FileOf(fmt::format("{}/{}.evt", Name(), location));
    reads_(events);
    OTF2_EvtReader* const from = OTF2_Reader_GetEvtReader(reader_.get(), location);
    if (!from) return Fail(events, OTF2_ERROR_INVALID);
    OTF2_EvtReader_ApplyMappingTables(from, true);
    OTF2_EvtReader_ApplyClockOffsets(from, true);
    OTF2_Reader_RegisterEvtCallbacks(reader_.get(), from, callbacks_.get(), target);
    const auto code = OTF2_Reader_ReadAllLocalEvents(reader_.get(), from, &count);
    if (code != OTF2_SUCCESS) Fail(events, code);
    OTF2_Reader_CloseEvtReader(reader_.get(), from);
  }

  std::string Name() const { return fs::path(anchor_).stem().string(); }
  // "traces.def", "traces/0.evt"
  std::string FileOf(const std::string& name) const {
    const fs::path folder = fs::path(anchor_).parent_path();
    return (folder / (name == "def" ? Name() + ".def" : name)).string();
  }
  void Fail(const std::string& file, OTF2_ErrorCode code) {
    imported_.failures.push_back({file, complaints_.Take(code)});
  }

  Complaints complaints_;  // from before the library opens anything
  const std::string anchor_;
  const absl::FunctionRef<void(const std::string&)> reads_;
  Imported& imported_;
  const std::unique_ptr<OTF2_Reader, OTF2_ErrorCode (*)(OTF2_Reader*)> reader_;
  const Callbacks callbacks_ = MakeCallbacks();
  Definitions definitions_;
};

}  // namespace

void ReadArchive(const std::string& anchor, absl::FunctionRef<void(const std::string&)> reads, TakeTrace take,
                 Imported* imported) {
  Archive(anchor, reads, imported).Read(take);
}

}  // namespace ncclwatch::analyzer::import::otf2
