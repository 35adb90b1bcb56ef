// The fields of all that a diagnosis says, each once. The code of leaders (nodes/diagnosis_code.cc), JSON
// (report/render_json.cc, analyzer/jobs/diagnosis_json.cc) and their tests walk these lists: Fields(visit, value) calls
// visit(key, field, form) for each field. A new field is one line here; tests/unit/diagnosis/fields_test.cc fails if it
// is missing.
//
// A Visit also has Group(key, function), for fields that JSON keeps in an object of their own, and
// Derived(key, value, form), for what JSON alone has.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/model/finding.h"
#include "core/model/ignore.h"

namespace ncclwatch::diagnosis {

// How JSON writes the field. All else takes it as it is.
enum class Form {
  kPlain,
  kInternal,     // it does not
  kNone,         // null if the text is empty or the number negative
  kPositive,     // null if the number is not above 0
  kRanks,        // job ranks in one line, without those that are not known
  kRanksOrNone,  // ... null if there are none
  kRankSet,      // "0-3,7"
  kHex,          // "0x7f..."
  kId,           // 16 hexadecimal digits
  kTime,         // CLOCK_REALTIME in ns, as UTC
  kSeconds,      // three decimals
  kMerged,       // the field's own fields, among those of the object around it
  kOfSlow,       // of findings that have an effect; others lack the key
  kIfAny,        // the key is left out if the list is empty
  kChecked,      // of `diagnose --json` alone: leaders neither write nor send it
};

template <typename T, typename Field>
concept FieldsOf = std::same_as<std::remove_const_t<T>, Field>;

template <typename Visit, FieldsOf<Exit> T>
void Fields(Visit& visit, T& exit) {
  visit("signal", exit.signal);
  visit("status", exit.status);
  visit("core", exit.core);
  visit("out_of_memory", exit.out_of_memory);
}

template <typename Visit, FieldsOf<SignalWords> T>
void Fields(Visit& visit, T& words) {
  visit("signal", words.signal);
  visit("code", words.code);
  visit("address", words.address, Form::kHex);
  visit("thread", words.thread);
  visit("thread_name", words.thread_name);
  visit("handled", words.handled);
  visit("frames", words.frames);
}

template <typename Visit, FieldsOf<ExceptionWords> T>
void Fields(Visit& visit, T& words) {
  visit("language", words.language);
  visit("type", words.type);
  visit("message", words.message);
  visit("place", words.place);
}

template <typename Visit, FieldsOf<AllocationWords> T>
void Fields(Visit& visit, T& words) {
  visit("function", words.function);
  visit("bytes", words.bytes);
  visit("device", words.device, Form::kNone);
  visit("free_bytes", words.free_bytes);
  visit("total_bytes", words.total_bytes);
}

template <typename Visit, FieldsOf<ErrorWords> T>
void Fields(Visit& visit, T& words) {
  visit("op", words.op, Form::kNone);
  visit("result", words.result);
  visit("text", words.text);
  visit("asynchronous", words.asynchronous);
}

template <typename Visit, FieldsOf<LastWords> T>
void Fields(Visit& visit, T& words) {
  visit("signal", words.signal);
  visit("exception", words.exception);
  visit("allocation", words.allocation);
  visit("error", words.error);
}

template <typename Visit, FieldsOf<Gpu> T>
void Fields(Visit& visit, T& gpu) {
  visit("gpu_uuid", gpu.uuid, Form::kNone);
  visit("gpu_index", gpu.index, Form::kNone);
  visit("pci_bus_id", gpu.pci_bus_id, Form::kNone);
}

template <typename Visit, FieldsOf<Culprit> T>
void Fields(Visit& visit, T& culprit) {
  visit("rank", culprit.rank);
  visit("host", culprit.host, Form::kNone);
  visit("pid", culprit.pid);
  visit("start_time", culprit.start_time, Form::kInternal);
  visit("local_rank", culprit.local_rank);
  visit("gpu", culprit.gpu, Form::kMerged);
  visit("node", culprit.node, Form::kNone);
  visit("exit", culprit.exit);
  visit("last_words", culprit.last_words);
  visit("where", culprit.where);
  visit("state", culprit.state, Form::kInternal);
}

template <typename Visit, FieldsOf<CommunicatorName> T>
void Fields(Visit& visit, T& name) {
  visit("id", name.id, Form::kId);
  visit("label", name.label);
  visit("size", name.size);
  visit("members", name.members, Form::kRankSet);
}

template <typename Visit, FieldsOf<PeerName> T>
void Fields(Visit& visit, T& peer) {
  visit("communicator_rank", peer.communicator_rank);
  visit("rank", peer.rank, Form::kNone);
}

template <typename Visit, FieldsOf<SourcePlace> T>
void Fields(Visit& visit, T& place) {
  visit("file", place.file, Form::kNone);
  visit("line", place.line, Form::kPositive);
  visit("function", place.function, Form::kNone);
  visit("module", place.module, Form::kNone);
  visit("offset", place.offset, Form::kPositive);
  visit("on_main_thread", place.on_main_thread);
  visit("real_ns", place.real_ns, Form::kInternal);
}

template <typename Visit, FieldsOf<CallSummary> T>
void Fields(Visit& visit, T& call) {
  visit("ranks", call.ranks, Form::kRanks);
  visit("communicator", call.communicator, Form::kId);
  visit("label", call.label);
  visit("position", call.position);
  visit("op", call.op);
  visit("count", call.count);
  visit("dtype", call.dtype);
  visit("reduction", call.reduction);
  visit("payload", call.payload, Form::kNone);
  visit("root", call.root);
  visit("peer", call.peer);
  visit("group", call.group);
  visit("stream", call.stream, Form::kHex);
  visit("thread", call.thread);
  visit("address", call.site, Form::kInternal);
  visit("site", call.source);
  visit("site_text", call.site_text);
  visit("state", call.state);
  visit("mpi", call.mpi, Form::kInternal);
  visit("elapsed_s", call.elapsed_s, Form::kSeconds);
  visit("result", call.result);
}

template <typename Visit, FieldsOf<Step> T>
void Fields(Visit& visit, T& step) {
  visit("rank", step.rank);
  visit("number", step.number);
  visit("exact", step.exact);
  visit("call", step.call);
  visit("calls", step.calls);
}

template <typename Visit, FieldsOf<Onset> T>
void Fields(Visit& visit, T& onset) {
  visit("step", onset.step);
  visit("at", onset.at_ns, Form::kTime);
  visit("since_before", onset.since_before);
}

inline std::optional<double> ChangeOf(const Effect& effect) {
  if (!effect.before || !effect.after || *effect.before == 0) return std::nullopt;
  return *effect.after / *effect.before - 1;
}

template <typename Visit, FieldsOf<Effect> T>
void Fields(Visit& visit, T& effect) {
  visit("metric", effect.metric);
  visit("unit", effect.unit);
  visit("before", effect.before);
  visit("after", effect.after);
  visit.Derived("change", ChangeOf(effect));
}

template <typename Visit, FieldsOf<SharedBy> T>
void Fields(Visit& visit, T& shared) {
  visit("hosts", shared.hosts);
  visit.Derived("gpus", std::vector<std::string>{});
  visit("rail", shared.rail);
  visit("switch", shared.switch_name, Form::kNone);
  visit("pair", shared.pair, Form::kRanksOrNone);
}

template <typename Visit, FieldsOf<Fact> T>
void Fields(Visit& visit, T& fact) {
  visit("name", fact.name);
  visit("unit", fact.unit);
  visit("value", fact.value);
}

template <typename Visit, FieldsOf<Finding> T>
void Fields(Visit& visit, T& finding) {
  visit("kind", finding.kind);
  visit("certainty", finding.certainty);
  visit("culprits", finding.culprits, Form::kRanks);
  visit("culprit_details", finding.culprit_details);
  visit("victims", finding.victims, Form::kRanks);
  visit("communicator", finding.communicator);
  visit("position", finding.position);
  visit("step", finding.step);
  visit("calls", finding.calls);
  visit("began_at", finding.began_at_ns, Form::kTime);
  visit("detected_at", finding.detected_at_ns, Form::kTime);
  visit("caused_by", finding.caused_by);
  visit("unsettled", finding.unsettled, Form::kInternal);
  visit("onset", finding.onset, Form::kOfSlow);
  visit("effect", finding.effect, Form::kOfSlow);
  visit("shared_by", finding.shared_by, Form::kOfSlow);
  visit("share_lost", finding.share_lost, Form::kOfSlow);
  visit("late_ns", finding.late_ns, Form::kInternal);
  visit("summary", finding.summary);
  visit("facts", finding.facts);
  visit("evidence", finding.evidence);
  visit("machine_lines", finding.machine_lines, Form::kInternal);
  visit("next_steps", finding.next_steps);
  visit.Derived("ignore_lines", IgnoreLinesFor(finding), Form::kIfAny);
}

template <typename Visit, FieldsOf<CheckedRule> T>
void Fields(Visit& visit, T& rule) {
  visit("rule", rule.rule);
  visit("makes", rule.makes, Form::kInternal);
  visit("ran", rule.ran);
  visit("applies", rule.applies, Form::kInternal);
  visit("covers", rule.covers);
  visit("result", rule.result);
  visit("why", rule.why, Form::kNone);
}

template <typename Visit, FieldsOf<IgnoredFindings> T>
void Fields(Visit& visit, T& ignored) {
  visit("line", ignored.line);
  visit("findings", ignored.findings);
}

template <typename Visit, FieldsOf<Diagnosis> T>
void Fields(Visit& visit, T& diagnosis) {
  visit.Derived("schema", std::string("ncclwatch.diagnosis/1"));
  visit.Derived("healthy", diagnosis.healthy());
  visit.Group("job", [&] {
    visit("name", diagnosis.job);
    visit("attempt", diagnosis.attempt);
    visit("world_size", diagnosis.world_size);
    visit("processes", diagnosis.processes);
    visit("hosts", diagnosis.hosts);
  });
  visit.Group("coverage", [&] {
    visit("watched", diagnosis.watched);
    visit("expected", diagnosis.expected);
    visit("unseen_ranks", diagnosis.unseen_ranks, Form::kRanks);
  });
  visit("notes", diagnosis.notes);
  visit("missing", diagnosis.missing);
  visit("checked", diagnosis.checked, Form::kChecked);
  visit("findings", diagnosis.findings);
  visit("ignored", diagnosis.ignored, Form::kChecked);
  visit("unexplained", diagnosis.unexplained, Form::kInternal);
}

// Structs that have a list of fields: neither texts nor containers are aggregates.
template <typename T>
concept HasFields = std::is_class_v<T> && std::is_aggregate_v<T>;

}  // namespace ncclwatch::diagnosis
