#include "watchdog/nodes/diagnosis_code.h"

#include <bit>
#include <type_traits>

#include "watchdog/nodes/summary.h"

namespace ncclwatch::nodes {
namespace {

using diagnosis::CallSummary;
using diagnosis::Culprit;
using diagnosis::Finding;

constexpr std::size_t kMostLine = 1u << 16;
constexpr std::uint64_t kMostItems = 1u << 20;

// ---- one pair of functions for each kind of value; lists and optionals of them follow
// --------------------------------

void Put(const std::string& text, Writer* to) { to->Text(text, kMostLine); }
void Get(Reader* from, std::string* text) { *text = from->Text(kMostLine); }
void Put(int value, Writer* to) { to->Signed(value); }
void Get(Reader* from, int* value) { *value = from->Signed32(); }
void Put(std::uint32_t value, Writer* to) { to->Number(value); }
void Get(Reader* from, std::uint32_t* value) { *value = from->NumberAs<std::uint32_t>(); }
void Put(std::uint64_t value, Writer* to) { to->Number(value); }
void Get(Reader* from, std::uint64_t* value) { *value = from->Number(); }
void Put(double value, Writer* to) { to->Whole(std::bit_cast<std::uint64_t>(value)); }
void Get(Reader* from, double* value) { *value = std::bit_cast<double>(from->Whole()); }

void Put(const diagnosis::PeerName& peer, Writer* to) { to->Signed(peer.communicator_rank).Signed(peer.rank); }
void Get(Reader* from, diagnosis::PeerName* peer) {
  peer->communicator_rank = from->Signed32();
  peer->rank = from->Signed32();
}

template <typename T>
void Put(const std::optional<T>& value, Writer* to);
template <typename T>
void Get(Reader* from, std::optional<T>* value);
template <typename T>
void Put(const std::vector<T>& list, Writer* to);
template <typename T>
void Get(Reader* from, std::vector<T>* list);

void Put(const diagnosis::Exit& exit, Writer* to) {
  Put(exit.signal, to);
  Put(exit.status, to);
  to->Byte(exit.core ? 1 : 0).Byte(exit.out_of_memory ? 1 : 0);
}
void Get(Reader* from, diagnosis::Exit* exit) {
  Get(from, &exit->signal);
  Get(from, &exit->status);
  exit->core = from->Byte() != 0;
  exit->out_of_memory = from->Byte() != 0;
}

void Put(bool value, Writer* to) { to->Byte(value ? 1 : 0); }
void Get(Reader* from, bool* value) { *value = from->Byte() != 0; }

void Put(const diagnosis::SignalWords& words, Writer* to) {
  Put(words.signal, to);
  Put(words.code, to);
  Put(words.address, to);
  Put(words.thread, to);
  Put(words.thread_name, to);
  Put(words.handled, to);
  Put(words.frames, to);
}
void Get(Reader* from, diagnosis::SignalWords* words) {
  Get(from, &words->signal);
  Get(from, &words->code);
  Get(from, &words->address);
  Get(from, &words->thread);
  Get(from, &words->thread_name);
  Get(from, &words->handled);
  Get(from, &words->frames);
}

void Put(const diagnosis::ExceptionWords& words, Writer* to) {
  Put(words.language, to);
  Put(words.type, to);
  Put(words.message, to);
  Put(words.place, to);
}
void Get(Reader* from, diagnosis::ExceptionWords* words) {
  Get(from, &words->language);
  Get(from, &words->type);
  Get(from, &words->message);
  Get(from, &words->place);
}

void Put(const diagnosis::AllocationWords& words, Writer* to) {
  Put(words.function, to);
  Put(words.bytes, to);
  Put(words.device, to);
  Put(words.free_bytes, to);
  Put(words.total_bytes, to);
}
void Get(Reader* from, diagnosis::AllocationWords* words) {
  Get(from, &words->function);
  Get(from, &words->bytes);
  Get(from, &words->device);
  Get(from, &words->free_bytes);
  Get(from, &words->total_bytes);
}

void Put(const diagnosis::ErrorWords& words, Writer* to) {
  Put(words.op, to);
  Put(words.result, to);
  Put(words.text, to);
  Put(words.asynchronous, to);
}
void Get(Reader* from, diagnosis::ErrorWords* words) {
  Get(from, &words->op);
  Get(from, &words->result);
  Get(from, &words->text);
  Get(from, &words->asynchronous);
}

void Put(const diagnosis::LastWords& words, Writer* to) {
  Put(words.signal, to);
  Put(words.exception, to);
  Put(words.allocation, to);
  Put(words.error, to);
}
void Get(Reader* from, diagnosis::LastWords* words) {
  Get(from, &words->signal);
  Get(from, &words->exception);
  Get(from, &words->allocation);
  Get(from, &words->error);
}

void Put(const diagnosis::SourcePlace& source, Writer* to) {
  Put(source.module, to);
  Put(source.offset, to);
  Put(source.file, to);
  Put(source.line, to);
  Put(source.function, to);
  to->Signed(source.real_ns);
}
void Get(Reader* from, diagnosis::SourcePlace* source) {
  Get(from, &source->module);
  Get(from, &source->offset);
  Get(from, &source->file);
  Get(from, &source->line);
  Get(from, &source->function);
  source->real_ns = from->Signed();
}

void Put(const diagnosis::Gpu& gpu, Writer* to) {
  Put(gpu.uuid, to);
  Put(gpu.pci_bus_id, to);
  Put(gpu.index, to);
}
void Get(Reader* from, diagnosis::Gpu* gpu) {
  Get(from, &gpu->uuid);
  Get(from, &gpu->pci_bus_id);
  Get(from, &gpu->index);
}

void Put(const Culprit& culprit, Writer* to) {
  Put(culprit.rank, to);
  Put(culprit.host, to);
  Put(culprit.node, to);
  Put(culprit.gpu, to);
  Put(culprit.pid, to);
  Put(culprit.start_time, to);
  Put(culprit.local_rank, to);
  Put(culprit.exit, to);
  Put(culprit.last_words, to);
  Put(culprit.where, to);
  Put(culprit.state, to);
}
void Get(Reader* from, Culprit* culprit) {
  Get(from, &culprit->rank);
  Get(from, &culprit->host);
  Get(from, &culprit->node);
  Get(from, &culprit->gpu);
  Get(from, &culprit->pid);
  Get(from, &culprit->start_time);
  Get(from, &culprit->local_rank);
  Get(from, &culprit->exit);
  Get(from, &culprit->last_words);
  Get(from, &culprit->where);
  Get(from, &culprit->state);
}

void Put(const diagnosis::CommunicatorName& name, Writer* to) {
  to->Whole(name.id);
  Put(name.label, to);
  Put(name.size, to);
  Put(name.members, to);
}
void Get(Reader* from, diagnosis::CommunicatorName* name) {
  name->id = from->Whole();
  Get(from, &name->label);
  Get(from, &name->size);
  Get(from, &name->members);
}

template <typename Enum>
Enum GetEnum(Reader* from, Enum last) {
  return static_cast<Enum>(from->NumberUpTo(static_cast<std::uint64_t>(last)));
}

void Put(const CallSummary& call, Writer* to) {
  Put(call.ranks, to);
  to->Whole(call.communicator).Number(call.position);
  Put(call.op, to);
  Put(call.count, to);
  Put(call.dtype, to);
  Put(call.reduction, to);
  Put(call.root, to);
  Put(call.peer, to);
  Put(call.group, to);
  Put(call.stream, to);
  Put(call.thread, to);
  Put(call.site, to);
  Put(call.site_text, to);
  Put(call.source, to);
  to->Number(static_cast<std::uint64_t>(call.state));
  Put(call.elapsed_s, to);
  Put(call.result, to);
}
void Get(Reader* from, CallSummary* call) {
  Get(from, &call->ranks);
  call->communicator = from->Whole();
  call->position = from->Number();
  Get(from, &call->op);
  Get(from, &call->count);
  Get(from, &call->dtype);
  Get(from, &call->reduction);
  Get(from, &call->root);
  Get(from, &call->peer);
  Get(from, &call->group);
  Get(from, &call->stream);
  Get(from, &call->thread);
  Get(from, &call->site);
  Get(from, &call->site_text);
  Get(from, &call->source);
  call->state = GetEnum(from, diagnosis::CallState::kNotObserved);
  Get(from, &call->elapsed_s);
  Get(from, &call->result);
}

void Put(const diagnosis::Step& step, Writer* to) {
  to->Signed(step.rank).Number(step.number).Byte(step.exact ? 1 : 0);
  Put(step.call, to);
  to->Number(step.calls);
}
void Get(Reader* from, diagnosis::Step* step) {
  step->rank = from->Signed32();
  step->number = from->Number();
  step->exact = from->Byte() != 0;
  Get(from, &step->call);
  step->calls = from->Number();
}

void Put(const diagnosis::Onset& onset, Writer* to) {
  to->Number(onset.step).Signed(onset.at_ns);
  Put(onset.since_before, to);
}
void Get(Reader* from, diagnosis::Onset* onset) {
  onset->step = from->Number();
  onset->at_ns = from->Signed();
  Get(from, &onset->since_before);
}

void Put(const diagnosis::Effect& effect, Writer* to) {
  Put(effect.metric, to);
  Put(effect.unit, to);
  Put(effect.before, to);
  Put(effect.after, to);
}
void Get(Reader* from, diagnosis::Effect* effect) {
  Get(from, &effect->metric);
  Get(from, &effect->unit);
  Get(from, &effect->before);
  Get(from, &effect->after);
}

void Put(const diagnosis::SharedBy& shared, Writer* to) {
  Put(shared.hosts, to);
  Put(shared.rail, to);
  Put(shared.switch_name, to);
  Put(shared.pair, to);
}
void Get(Reader* from, diagnosis::SharedBy* shared) {
  Get(from, &shared->hosts);
  Get(from, &shared->rail);
  Get(from, &shared->switch_name);
  Get(from, &shared->pair);
}

void Put(const Finding& finding, Writer* to) {
  Put(std::string(Name(finding.kind)), to);  // by name: kinds may be added in any order
  to->Number(static_cast<std::uint64_t>(finding.certainty));
  Put(finding.culprits, to);
  Put(finding.culprit_details, to);
  Put(finding.victims, to);
  Put(finding.communicator, to);
  Put(finding.position, to);
  Put(finding.step, to);
  Put(finding.calls, to);
  to->Signed(finding.began_at_ns).Signed(finding.detected_at_ns);
  to->Number(finding.caused_by ? *finding.caused_by + 1 : 0);
  Put(finding.onset, to);
  Put(finding.effect, to);
  Put(finding.shared_by, to);
  Put(finding.share_lost, to);
  Put(finding.summary, to);
  Put(finding.evidence, to);
  Put(finding.next_steps, to);
}

diagnosis::Kind KindNamed(const std::string& name, Reader* from) {
  constexpr int kMostKinds = 64;
  for (int i = 0; i < kMostKinds; ++i) {
    const auto kind = static_cast<diagnosis::Kind>(i);
    if (Name(kind) == name && name != "?") return kind;
  }
  from->Fail();
  return {};
}

void Get(Reader* from, Finding* finding) {
  std::string kind;
  Get(from, &kind);
  finding->kind = KindNamed(kind, from);
  finding->certainty = GetEnum(from, diagnosis::Certainty::kCertain);
  Get(from, &finding->culprits);
  Get(from, &finding->culprit_details);
  Get(from, &finding->victims);
  Get(from, &finding->communicator);
  Get(from, &finding->position);
  Get(from, &finding->step);
  Get(from, &finding->calls);
  finding->began_at_ns = from->Signed();
  finding->detected_at_ns = from->Signed();
  if (const std::uint64_t cause = from->NumberUpTo(kMostItems); cause > 0) finding->caused_by = cause - 1;
  Get(from, &finding->onset);
  Get(from, &finding->effect);
  Get(from, &finding->shared_by);
  Get(from, &finding->share_lost);
  Get(from, &finding->summary);
  Get(from, &finding->evidence);
  Get(from, &finding->next_steps);
}

template <typename T>
void Put(const std::optional<T>& value, Writer* to) {
  to->Byte(value ? 1 : 0);
  if (value) Put(*value, to);
}
template <typename T>
void Get(Reader* from, std::optional<T>* value) {
  if (from->Byte() != 0) Get(from, &value->emplace());
}

template <typename T>
void Put(const std::vector<T>& list, Writer* to) {
  to->Number(list.size());
  for (const T& item : list) Put(item, to);
}
// Every item takes a byte at least: what promises more than there are bytes left is damage.
template <typename T>
void Get(Reader* from, std::vector<T>* list) {
  std::uint64_t left = from->NumberUpTo(kMostItems);
  if (left > from->left()) left = from->Fail();
  for (; left > 0 && from->ok(); --left) {
    from->Made(sizeof(T));
    Get(from, &list->emplace_back());
  }
}

}  // namespace

std::string WriteFindings(const std::vector<Finding>& findings) {
  Writer to;
  to.Byte(kWireVersion);
  Put(findings, &to);
  return to.Take();
}

std::optional<std::vector<Finding>> ReadFindings(std::string_view body) {
  Reader from(body);
  std::vector<Finding> findings;
  if (from.Byte() != kWireVersion) return std::nullopt;
  Get(&from, &findings);
  for (const Finding& finding : findings)
    if (finding.caused_by && *finding.caused_by >= findings.size()) from.Fail();
  if (!from.Done()) return std::nullopt;
  return findings;
}

void WriteDiagnosis(const diagnosis::Diagnosis& diagnosis, Writer* to) {
  Put(diagnosis.job, to);
  Put(diagnosis.attempt, to);
  Put(diagnosis.world_size, to);
  Put(diagnosis.processes, to);
  Put(diagnosis.hosts, to);
  Put(diagnosis.watched, to);
  Put(diagnosis.expected, to);
  Put(diagnosis.unseen_ranks, to);
  Put(diagnosis.notes, to);
  Put(diagnosis.missing, to);
  Put(diagnosis.findings, to);
}

bool ReadDiagnosis(Reader* from, diagnosis::Diagnosis* diagnosis) {
  Get(from, &diagnosis->job);
  Get(from, &diagnosis->attempt);
  Get(from, &diagnosis->world_size);
  Get(from, &diagnosis->processes);
  Get(from, &diagnosis->hosts);
  Get(from, &diagnosis->watched);
  Get(from, &diagnosis->expected);
  Get(from, &diagnosis->unseen_ranks);
  Get(from, &diagnosis->notes);
  Get(from, &diagnosis->missing);
  Get(from, &diagnosis->findings);
  for (const diagnosis::Finding& finding : diagnosis->findings)
    if (finding.caused_by && *finding.caused_by >= diagnosis->findings.size()) from->Fail();
  return from->ok();
}

}  // namespace ncclwatch::nodes
