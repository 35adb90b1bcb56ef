#include "analyzer/import/entries.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "ncclwatch/format/record.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::import {
namespace {

constexpr std::size_t kMostFrames = 64;     // that are looked through for the application's own
constexpr std::size_t kMostSiteText = 256;  // of a name: an input may use one long string any number of times

bool OfTorch(std::string_view file) {
  for (const std::string_view part : {"/torch/distributed/", "-packages/torch/", "-packages/torchcomms/"})
    if (file.find(part) != std::string_view::npos) return true;
  return file.empty() || file.starts_with("torch/");
}

using functions::Function;
using reader::Call;

constexpr std::int64_t kMostSeq = std::int64_t{1} << 60;
constexpr std::int64_t kMostNs = std::int64_t{1} << 61;  // instants and timeouts are added up
constexpr std::int64_t kMostTimeoutMs = std::int64_t{1} << 40;
constexpr std::size_t kMostName = 256;  // of a name: an input may use one long string any number of times

// Torch's own are places in memory, which are no numbers of threads.
std::uint32_t ThreadIn(std::string_view text) {
  std::uint32_t thread = 0;
  return std::from_chars(text.data(), text.data() + text.size(), thread).ec == std::errc() ? thread : 0;
}

}  // namespace

std::uint32_t CallSites::LookAt(ValueId frame) {
  if (!tree_.Is(frame, ValueKind::kDictionary)) return 0;
  std::string name, file, line;
  Key key = Key::kOther;
  bool is_key = true;
  tree_.Each(frame, 16, [&](ValueId value) {
    if (is_key)
      key = words_.Of(value).key;
    else if (key == Key::kName)
      name = words_.Of(value).text.substr(0, kMostSiteText);
    else if (key == Key::kFilename)
      file = words_.Of(value).text.substr(0, kMostSiteText);
    else if (key == Key::kLine && tree_.Is(value, ValueKind::kInteger))
      line = fmt::format("{}", tree_.integer(value));
    is_key = !is_key;
  });
  if (OfTorch(file)) return 0;
  reader::CallSite site;
  site.address = box_.call_sites.size() + 1;
  site.name = line == "0" ? name : fmt::format("{}:{} in {}", file, line, name);
  box_.call_sites.push_back(std::move(site));
  return static_cast<std::uint32_t>(box_.call_sites.size());
}

// The innermost frame that is not torch's own.
std::uint64_t CallSites::Of(ValueId frames) {
  if (!tree_.Is(frames, ValueKind::kList)) return 0;
  std::uint32_t site = 0;
  tree_.Each(frames, kMostFrames, [&](ValueId frame) {
    if (site != 0) return;
    if (site_of_[frame] == kNotLookedAt) site_of_[frame] = LookAt(frame);
    site = site_of_[frame];
  });
  return site;
}

struct Entries::Raw {
  Operation operation;
  std::uint32_t group = 0;
  std::int64_t record = -1, pg_id = -1, collective_seq = 0, p2p_seq = 0, created_ns = 0;
  ValueId frames = Tree::kNone;
  std::uint32_t thread = 0;
  std::uint64_t input = 0, output = 0;
  ScalarType input_type{format::kNoType, 1}, output_type{format::kNoType, 1};
  bool named = false, grouped = false, p2p = false, completed = false, retired = false;

  bool message() const { return operation.function == Function::ncclSend || operation.function == Function::ncclRecv; }
  Progress progress() const {
    if (completed) return Progress::kFinished;
    if (!retired || operation.completion == Completion::kByState) return Progress::kOutstanding;
    return operation.completion == Completion::kByRetired ? Progress::kRetired : Progress::kUnknown;
  }
};

Entries::Entries(const Tree& tree, Words* words, std::uint64_t budget, Dump* dump)
    : tree_(tree), words_(*words), budget_(budget), dump_(*dump), sites_(tree, words, &dump->box) {}

void Entries::Reserve(std::size_t entries) {
  dump_.box.calls.reserve(entries);
  progress_.reserve(entries);
}

bool Entries::Spend(std::uint64_t values) {
  spent_ = spent_ || values > budget_;
  budget_ -= std::min(values, budget_);
  return !spent_;
}

// Of all tensors together. NCCL is given the elements, not their shape.
std::uint64_t Entries::Elements(ValueId sizes) {
  if (!tree_.Is(sizes, ValueKind::kList)) return 0;
  std::uint64_t sum = 0, looked_at = 0;
  tree_.Each(sizes, budget_, [&](ValueId shape) {
    ++looked_at;
    if (!tree_.Is(shape, ValueKind::kList) || looked_at > budget_) return;
    std::uint64_t product = 1;
    tree_.Each(shape, budget_ - looked_at, [&](ValueId extent) {
      ++looked_at;
      const std::int64_t value = tree_.Is(extent, ValueKind::kInteger) ? tree_.integer(extent) : 0;
      if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)), &product))
        product = UINT64_MAX;
    });
    if (__builtin_add_overflow(sum, product, &sum)) sum = UINT64_MAX;
  });
  Spend(looked_at);
  return sum;
}

ScalarType Entries::TypeOf(ValueId dtypes) {
  ScalarType type{format::kNoType, 1};
  if (!tree_.Is(dtypes, ValueKind::kList)) return type;
  std::uint64_t looked_at = 0;
  tree_.Each(dtypes, budget_, [&](ValueId name) {
    const ScalarType one = words_.Of(name).type;
    if (looked_at++ == 0)
      type = one;
    else if (type.dtype != one.dtype || type.multiplier != one.multiplier)
      type = {format::kNoType, 1};
  });
  Spend(looked_at);
  return type;
}

std::uint32_t Entries::Group(ValueId name, ValueId description) {
  const std::uint64_t key = std::uint64_t{words_.NumberOf(name)} << 32 | words_.NumberOf(description);
  if (key == last_key_) return last_group_;
  const auto [found, fresh] = group_of_.try_emplace(key, static_cast<std::uint32_t>(dump_.groups.size()));
  last_key_ = key;
  last_group_ = found->second;
  if (!fresh) return found->second;
  ProcessGroup group;
  group.name = words_.Of(name).text.substr(0, kMostName);
  group.description = words_.Of(description).text.substr(0, kMostName);
  dump_.groups.push_back(std::move(group));
  reader::Communicator communicator;
  communicator.index = found->second;
  communicator.state = format::CommunicatorState::kReady;
  dump_.box.communicators.push_back(communicator);
  open_.emplace_back();
  return found->second;
}

std::uint32_t Entries::GroupOf(ValueId process_group) {
  ValueId parts[2] = {Tree::kNone, Tree::kNone};
  std::size_t count = 0;
  if (tree_.Is(process_group, ValueKind::kList))
    tree_.Each(process_group, 2, [&](ValueId part) { parts[count++] = part; });
  return Group(parts[0], parts[1]);
}

Entries::Raw Entries::Take(ValueId entry) {
  Raw raw;
  Key key = Key::kOther;
  bool is_key = true, says_p2p = false;
  const auto integer = [&](ValueId value) { return tree_.Is(value, ValueKind::kInteger) ? tree_.integer(value) : 0; };
  const auto instant = [&](ValueId value) {
    const std::int64_t at = std::clamp<std::int64_t>(integer(value), 0, kMostNs);
    dump_.newest_ns = std::max(dump_.newest_ns, at);
    return at;
  };
  std::uint64_t looked_at = 0;
  tree_.Each(entry, budget_, [&](ValueId value) {
    ++looked_at;
    is_key = !is_key;
    if (!is_key) {
      key = words_.Of(value).key;
      return;
    }
    switch (key) {
      case Key::kRecordId: raw.record = integer(value); break;
      case Key::kPgId: raw.pg_id = tree_.Is(value, ValueKind::kInteger) ? tree_.integer(value) : -1; break;
      case Key::kProcessGroup: raw.group = GroupOf(value), raw.grouped = true; break;
      case Key::kCollectiveSeq: raw.collective_seq = std::clamp<std::int64_t>(integer(value), 0, kMostSeq); break;
      case Key::kP2pSeq: raw.p2p_seq = integer(value); break;
      case Key::kProfilingName: raw.operation = words_.Of(value).operation, raw.named = true; break;
      case Key::kTimeCreated: raw.created_ns = instant(value); break;
      case Key::kTimeStarted: instant(value); break;
      case Key::kTimeCompleted: raw.completed |= instant(value) > 0; break;
      case Key::kInputSizes: raw.input = Elements(value); break;
      case Key::kInputDtypes: raw.input_type = TypeOf(value); break;
      case Key::kOutputSizes: raw.output = Elements(value); break;
      case Key::kOutputDtypes: raw.output_type = TypeOf(value); break;
      case Key::kState: raw.completed |= words_.Of(value).completed; break;
      case Key::kRetired: raw.retired = value == Tree::kTrue; break;
      case Key::kTimeout:
        dump_.timeout_ns =
            std::max(dump_.timeout_ns, std::clamp<std::int64_t>(integer(value), 0, kMostTimeoutMs) * kMs);
        break;
      case Key::kIsP2p: raw.p2p = value == Tree::kTrue, says_p2p = true; break;
      case Key::kFrames: raw.frames = value; break;
      case Key::kThreadId: raw.thread = ThreadIn(words_.Of(value).text); break;
      default: break;
    }
  });
  Spend(looked_at);
  if (!says_p2p) raw.p2p = raw.message();
  return raw;
}

Call Entries::CallOf(const Raw& raw) {
  const bool output = raw.operation.amount == Amount::kOutput;
  const ScalarType type = output ? raw.output_type : raw.input_type;
  Call call;
  call.slot = static_cast<std::uint64_t>(raw.record);
  call.entered_ns = call.returned_ns = raw.created_ns;
  call.function = raw.operation.function;
  call.communicator = raw.group;
  call.thread = raw.thread;
  call.site = sites_.Of(raw.frames);
  const std::uint64_t elements = output ? raw.output : raw.input;
  call.count = elements > UINT64_MAX / 2 ? elements : elements * type.multiplier;
  call.dtype = type.dtype;
  return call;
}

void Entries::Append(const Raw& raw, Call call) {
  dump_.box.calls.push_back(call);
  dump_.by_rank.push_back(raw.operation.amount == Amount::kByRank);
  progress_.push_back(raw.progress());
  open_[raw.group].newest = dump_.box.calls.size() - 1;
}

void Entries::AddCollective(const Raw& raw) {
  Open& open = open_[raw.group];
  reader::Communicator& communicator = dump_.box.communicators[raw.group];
  // Its own numbers begin with 1; positions begin with 0.
  const std::uint64_t position = raw.collective_seq > 0 ? static_cast<std::uint64_t>(raw.collective_seq) - 1 : 0;
  communicator.entered = std::max(communicator.entered, position + 1);
  if (raw.operation.function == Function::kNone) {
    ++dump_.unknown;
    return;
  }
  Call call = CallOf(raw);
  call.position = position;
  if (open.collective_seq == raw.collective_seq) {  // coalesced: one launch of several
    Call& first = dump_.box.calls[open.collective];
    first.count += call.count;
    if (first.dtype != call.dtype || first.function != call.function) first.dtype = format::kNoType;
    return;
  }
  open.collective_seq = raw.collective_seq;
  open.collective = dump_.box.calls.size();
  communicator.last = {call.slot, call.count, call.entered_ns, call.function, call.root, call.dtype, call.reduction, 0};
  Append(raw, call);
}

void Entries::AddMessage(const Raw& raw) {
  Open& open = open_[raw.group];
  const bool send = raw.operation.function == Function::ncclSend;
  Call call = CallOf(raw);
  call.root = raw.operation.peer;
  if (call.root < 0) {
    dump_.groups[raw.group].anyone = true;
  } else {
    const std::uint64_t key = std::uint64_t{raw.group} << 32 | static_cast<std::uint32_t>(call.root);
    const auto [found, fresh] = peer_of_.try_emplace(key, dump_.box.peers.size());
    if (fresh) dump_.box.peers.push_back({raw.group, 0, static_cast<std::uint32_t>(call.root), 0, 0});
    reader::PeerCount& peer = dump_.box.peers[found->second];
    call.position = send ? peer.sends++ : peer.receives++;
  }
  reader::Communicator& communicator = dump_.box.communicators[raw.group];
  ++(send ? communicator.sends : communicator.receives);
  // The recorder was switched on, or emptied, later: its own numbers begin with 1.
  if (open.p2p_seq < 0 && raw.p2p_seq > 1) dump_.groups[raw.group].begins_late = true;
  if (open.p2p_seq != raw.p2p_seq) open.messages.clear();
  open.p2p_seq = raw.p2p_seq;
  open.messages.push_back(dump_.box.calls.size());
  Append(raw, call);
}

// The entry that stands for the launch: only its events tell how those before it went.
bool Entries::EndsCoalesced(const Raw& raw) {
  if (!raw.operation.ends_coalesced) return false;
  Open& open = open_[raw.group];
  if (!raw.p2p && open.collective_seq == raw.collective_seq) {
    progress_[open.collective] = raw.progress();
    return true;
  }
  if (open.messages.empty() || open.p2p_seq != raw.p2p_seq) return false;
  for (const std::size_t message : open.messages) progress_[message] = raw.progress();
  open.messages.clear();
  return true;
}

bool Entries::Add(ValueId entry) {
  if (!tree_.Is(entry, ValueKind::kDictionary)) return !spent_;
  Raw raw = Take(entry);
  if (!raw.named || !raw.grouped) return !spent_;
  if (raw.record < 0) raw.record = static_cast<std::int64_t>(dump_.box.head);
  if (dump_.box.calls.empty() && dump_.box.head == 0) dump_.box.first_slot = static_cast<std::uint64_t>(raw.record);
  dump_.missing_records |= static_cast<std::uint64_t>(raw.record) > dump_.box.head;
  dump_.ended += raw.progress() != Progress::kOutstanding;
  if (raw.pg_id >= 0) group_of_pg_id_.try_emplace(raw.pg_id, raw.group);
  dump_.box.head = std::max(dump_.box.head, static_cast<std::uint64_t>(raw.record) + 1);
  dump_.groups[raw.group].used = true;
  if (EndsCoalesced(raw)) return !spent_;
  if (raw.message())
    AddMessage(raw);
  else if (!raw.p2p)
    AddCollective(raw);
  return !spent_;
}

// Whether a call has finished, as its GPU would have marked it.
void Entries::Mark(std::size_t index) {
  Call& call = dump_.box.calls[index];
  const Progress progress = progress_[index];
  // The last that a group of gloo's retired may have failed: whoever waits in vain is told so at last.
  const bool doubtful = progress == Progress::kRetired && open_[call.communicator].newest == index;
  if (progress == Progress::kUnknown || doubtful) return;
  reader::Communicator& communicator = dump_.box.communicators[call.communicator];
  call.flags |= format::kMarked;
  call.ticket = communicator.tickets++;
  std::uint64_t& mark = communicator.marks[call.ticket % format::kMarks];
  if (progress != Progress::kOutstanding) mark = call.ticket + 1;
}

void Entries::Finish() {
  for (std::size_t i = 0; i < dump_.box.calls.size(); ++i) Mark(i);
  for (reader::Communicator& communicator : dump_.box.communicators) communicator.returned = communicator.entered;
}

}  // namespace ncclwatch::analyzer::import
