// ncclwatch.diagnosis/1: every key is always there, null where nothing is known.
#include "watchdog/diagnosis/report/render.h"

#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/json_writer.h"

namespace ncclwatch::diagnosis {
namespace {

template <typename T, typename Write>
void OrNull(JsonWriter* json, const std::optional<T>& value, const Write& write) {
  if (value) {
    write(*value);
  } else {
    json->Null();
  }
}

void Number(JsonWriter* json, std::string_view key, const std::optional<int>& value) {
  json->Key(key);
  OrNull(json, value, [&](int number) { json->Integer(number); });
}

void Text(JsonWriter* json, std::string_view key, const std::optional<std::string>& value) {
  json->Key(key);
  OrNull(json, value, [&](const std::string& text) { json->String(text); });
}

void RankList(JsonWriter* json, std::string_view key, const std::vector<int>& ranks) {
  json->Key(key).BeginLine();
  for (const int rank : ranks) {
    if (rank >= 0) json->Integer(rank);
  }
  json->EndArray();
}

void TextList(JsonWriter* json, std::string_view key, const std::vector<std::string>& texts) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->String(text);
  json->EndArray();
}

void WriteExit(JsonWriter* json, const Exit& exit) {
  json->BeginObject();
  Number(json, "signal", exit.signal);
  Number(json, "status", exit.status);
  json->Key("core").Bool(exit.core).Key("out_of_memory").Bool(exit.out_of_memory).EndObject();
}

void WriteSignal(JsonWriter* json, const SignalWords& words) {
  json->BeginObject().Key("signal").Integer(words.signal).Key("code").Integer(words.code);
  json->Key("address").String(Hex(words.address)).Key("thread").Unsigned(words.thread);
  json->Key("thread_name").String(words.thread_name).Key("handled").Bool(words.handled);
  TextList(json, "frames", words.frames);
  json->EndObject();
}

void WriteException(JsonWriter* json, const ExceptionWords& words) {
  json->BeginObject().Key("language").String(words.language).Key("type").String(words.type);
  json->Key("message").String(words.message).Key("place").String(words.place).EndObject();
}

void WriteAllocation(JsonWriter* json, const AllocationWords& words) {
  json->BeginObject().Key("function").String(words.function).Key("bytes").Unsigned(words.bytes);
  Number(json, "device", words.device >= 0 ? std::optional<int>(words.device) : std::nullopt);
  json->Key("free_bytes");
  const auto figure = [&](std::uint64_t bytes) {
    return words.total_bytes != 0 ? std::optional<std::uint64_t>(bytes) : std::nullopt;
  };
  OrNull(json, figure(words.free_bytes), [&](std::uint64_t bytes) { json->Unsigned(bytes); });
  json->Key("total_bytes");
  OrNull(json, figure(words.total_bytes), [&](std::uint64_t bytes) { json->Unsigned(bytes); });
  json->EndObject();
}

void WriteError(JsonWriter* json, const ErrorWords& words) {
  json->BeginObject();
  Text(json, "op", words.op.empty() ? std::nullopt : std::optional<std::string>(words.op));
  json->Key("result").String(words.result).Key("text").String(words.text);
  json->Key("asynchronous").Bool(words.asynchronous).EndObject();
}

void WriteLastWords(JsonWriter* json, const LastWords& words) {
  json->BeginObject().Key("signal");
  OrNull(json, words.signal, [&](const SignalWords& signal) { WriteSignal(json, signal); });
  json->Key("exception");
  OrNull(json, words.exception, [&](const ExceptionWords& exception) { WriteException(json, exception); });
  json->Key("allocation");
  OrNull(json, words.allocation, [&](const AllocationWords& allocation) { WriteAllocation(json, allocation); });
  json->Key("error");
  OrNull(json, words.error, [&](const ErrorWords& error) { WriteError(json, error); });
  json->EndObject();
}

void WriteGpu(JsonWriter* json, const std::optional<Gpu>& gpu) {
  Text(json, "gpu_uuid", gpu ? std::optional(gpu->uuid) : std::nullopt);
  Number(json, "gpu_index", gpu && gpu->index >= 0 ? std::optional(gpu->index) : std::nullopt);
  Text(json, "pci_bus_id", gpu && !gpu->pci_bus_id.empty() ? std::optional(gpu->pci_bus_id) : std::nullopt);
}

void WriteCulprit(JsonWriter* json, const Culprit& culprit) {
  json->BeginObject().Key("rank").Integer(culprit.rank);
  Text(json, "host", culprit.host.empty() ? std::nullopt : std::optional<std::string>(culprit.host));
  json->Key("pid");
  OrNull(json, culprit.pid, [&](std::uint32_t pid) { json->Unsigned(pid); });
  Number(json, "local_rank", culprit.local_rank);
  WriteGpu(json, culprit.gpu);
  Text(json, "node", culprit.node.empty() ? std::nullopt : std::optional<std::string>(culprit.node));
  json->Key("exit");
  OrNull(json, culprit.exit, [&](const Exit& exit) { WriteExit(json, exit); });
  json->Key("last_words");
  OrNull(json, culprit.last_words, [&](const LastWords& words) { WriteLastWords(json, words); });
  TextList(json, "where", culprit.where);
  json->EndObject();
}

void WriteCommunicator(JsonWriter* json, const CommunicatorName& name) {
  json->BeginObject().Key("id").String(Hex16(name.id)).Key("label").String(name.label);
  json->Key("size").Unsigned(name.size).Key("members").String(RankSet(name.members)).EndObject();
}

void WriteSource(JsonWriter* json, const SourcePlace& source) {
  json->BeginObject();
  Text(json, "file", source.file.empty() ? std::nullopt : std::optional(source.file));
  Number(json, "line", source.line > 0 ? std::optional(source.line) : std::nullopt);
  Text(json, "function", source.function.empty() ? std::nullopt : std::optional(source.function));
  json->Key("module").String(source.module).Key("offset").Unsigned(source.offset).EndObject();
}

void WriteCall(JsonWriter* json, const CallSummary& call) {
  json->BeginObject();
  RankList(json, "ranks", call.ranks);
  json->Key("communicator").String(Hex16(call.communicator)).Key("position").Unsigned(call.position);
  Text(json, "op", call.op);
  json->Key("count");
  OrNull(json, call.count, [&](std::uint64_t count) { json->Unsigned(count); });
  Text(json, "dtype", call.dtype);
  Text(json, "reduction", call.reduction);
  Number(json, "root", call.root);
  json->Key("peer");
  OrNull(json, call.peer, [&](const PeerName& peer) {
    json->BeginObject().Key("communicator_rank").Integer(peer.communicator_rank).Key("rank");
    OrNull(json, peer.rank >= 0 ? std::optional<int>(peer.rank) : std::nullopt, [&](int rank) { json->Integer(rank); });
    json->EndObject();
  });
  json->Key("group");
  OrNull(json, call.group, [&](std::uint64_t group) { json->Unsigned(group); });
  json->Key("stream");
  OrNull(json, call.stream, [&](std::uint64_t stream) { json->String(Hex(stream)); });
  json->Key("thread");
  OrNull(json, call.thread, [&](std::uint32_t thread) { json->Unsigned(thread); });
  json->Key("site");
  OrNull(json, call.source, [&](const SourcePlace& source) { WriteSource(json, source); });
  Text(json, "site_text", call.site_text);
  json->Key("state").String(Name(call.state)).Key("elapsed_s");
  OrNull(json, call.elapsed_s, [&](double seconds) { json->Seconds(seconds); });
  Text(json, "result", call.result);
  json->EndObject();
}

void WriteStep(JsonWriter* json, const Step& step) {
  json->BeginObject().Key("rank").Integer(step.rank).Key("number").Unsigned(step.number).Key("exact").Bool(step.exact);
  json->Key("call");
  OrNull(json, step.call, [&](std::uint64_t call) { json->Unsigned(call); });
  json->Key("calls").Unsigned(step.calls).EndObject();
}

void WriteSlow(JsonWriter* json, const Finding& finding) {
  const Effect& effect = *finding.effect;
  json->Key("onset");
  OrNull(json, finding.onset, [&](const Onset& onset) {
    json->BeginObject().Key("step").Unsigned(onset.step).Key("at").String(UtcTime(onset.at_ns));
    json->Key("since_before").Bool(onset.since_before).EndObject();
  });
  json->Key("effect").BeginObject().Key("metric").String(effect.metric).Key("unit").String(effect.unit);
  json->Key("before");
  OrNull(json, effect.before, [&](double value) { json->Number(value); });
  json->Key("after");
  OrNull(json, effect.after, [&](double value) { json->Number(value); });
  json->Key("change");
  const bool has_change = effect.before && effect.after && *effect.before != 0;
  OrNull(json, has_change ? std::optional(*effect.after / *effect.before - 1) : std::nullopt,
         [&](double change) { json->Number(change); });
  json->EndObject();
  json->Key("shared_by").BeginObject();
  const SharedBy& shared = finding.shared_by;
  TextList(json, "hosts", shared.hosts);
  TextList(json, "gpus", {});
  json->Key("rail");
  OrNull(json, shared.rail, [&](int rail) { json->Integer(rail); });
  json->Key("switch");
  shared.switch_name.empty() ? json->Null() : json->String(shared.switch_name);
  if (shared.pair.empty())
    json->Key("pair").Null();
  else
    RankList(json, "pair", shared.pair);
  json->EndObject();
  json->Key("share_lost");
  OrNull(json, finding.share_lost, [&](double share) { json->Number(share); });
}

void WriteFinding(JsonWriter* json, const Finding& finding) {
  json->BeginObject().Key("kind").String(Name(finding.kind)).Key("certainty").String(Name(finding.certainty));
  RankList(json, "culprits", finding.culprits);
  json->Key("culprit_details").BeginArray();
  for (const Culprit& culprit : finding.culprit_details) WriteCulprit(json, culprit);
  json->EndArray();
  RankList(json, "victims", finding.victims);
  json->Key("communicator");
  OrNull(json, finding.communicator, [&](const CommunicatorName& name) { WriteCommunicator(json, name); });
  json->Key("position");
  OrNull(json, finding.position, [&](std::uint64_t position) { json->Unsigned(position); });
  json->Key("step");
  OrNull(json, finding.step, [&](const Step& step) { WriteStep(json, step); });
  json->Key("calls").BeginArray();
  for (const CallSummary& call : finding.calls) WriteCall(json, call);
  json->EndArray();
  json->Key("began_at").String(UtcTime(finding.began_at_ns));
  json->Key("detected_at").String(UtcTime(finding.detected_at_ns));
  json->Key("caused_by");
  OrNull(json, finding.caused_by, [&](std::size_t index) { json->Unsigned(index); });
  if (finding.effect) WriteSlow(json, finding);
  json->Key("summary").String(finding.summary);
  TextList(json, "evidence", finding.evidence);
  TextList(json, "next_steps", finding.next_steps);
  json->EndObject();
}

}  // namespace

std::string ToJsonLine(const Finding& finding) {
  JsonWriter json(JsonWriter::Layout::kOneLine);
  WriteFinding(&json, finding);
  std::string line = json.Take();
  line.erase(line.find_last_not_of('\n') + 1);
  return line;
}

std::string ToJson(const Diagnosis& diagnosis) {
  JsonWriter json;
  json.BeginObject().Key("schema").String("ncclwatch.diagnosis/1").Key("healthy").Bool(diagnosis.healthy());
  json.Key("job").BeginObject().Key("name").String(diagnosis.job).Key("attempt").Unsigned(diagnosis.attempt);
  json.Key("world_size").Integer(diagnosis.world_size).Key("processes").Integer(diagnosis.processes);
  TextList(&json, "hosts", diagnosis.hosts);
  json.EndObject();
  json.Key("coverage").BeginObject().Key("watched").Integer(diagnosis.watched);
  json.Key("expected").Integer(diagnosis.expected);
  RankList(&json, "unseen_ranks", diagnosis.unseen_ranks);
  json.EndObject();
  TextList(&json, "notes", diagnosis.notes);
  TextList(&json, "missing", diagnosis.missing);
  json.Key("findings").BeginArray();
  for (const Finding& finding : diagnosis.findings) WriteFinding(&json, finding);
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace ncclwatch::diagnosis
