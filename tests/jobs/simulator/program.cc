#include "tests/jobs/simulator/program.h"

#include <algorithm>

#include "simulation/chance.h"

namespace ncclwatch::jobs {
namespace {

void Begin(const Job& job, int rank, Ops* ops) {
  Writer writer(ops);
  writer.Work(50 * kMilli);
  for (const int c : job.comms_of[static_cast<std::size_t>(rank)]) {
    const Comm& comm = job.comms[static_cast<std::size_t>(c)];
    if (comm.parent < 0) {
      writer.Put({.what = Do::kInit, .comm = c, .function = Function::ncclCommInitRank});
    } else {
      writer.Put({.what = Do::kSplit, .root = comm.parent, .comm = c, .function = Function::ncclCommSplit});
    }
  }
  // The first model is rank 0's.
  writer.Collective(Function::ncclBroadcast, 0, 65536, kFloat32, kCompute, format::kNoReduction, 0);
  writer.Sync(kCompute);
}

void End(const Job& job, int rank, Ops* ops) {
  Writer writer(ops);
  writer.Sync(kCompute);
  writer.Work(5 * kMilli);
  const std::vector<int>& comms = job.comms_of[static_cast<std::size_t>(rank)];
  for (auto comm = comms.rbegin(); comm != comms.rend(); ++comm)
    writer.Put({.what = Do::kDestroy, .comm = *comm, .function = Function::ncclCommDestroy});
  writer.Put({.what = Do::kExit, .root = 0});
}

// Every step ends so: what all ranks say to one another, and the loss that the host wants to see.
void EndStep(const Job& job, int rank, int step, Ops* ops) {
  Writer writer(ops);
  const int partner = rank ^ 1;
  if (job.exchanges && partner < job.shape.ranks) {
    writer.GroupStart();
    writer.Send(0, partner, 3000, kCompute);
    writer.Recv(0, partner, 3000, kCompute);
    writer.GroupEnd();
  }
  writer.Collective(Function::ncclAllReduce, 0, 1, kFloat32, kCompute, kSum);  // the norm of the gradients
  writer.Kernel(kCompute, kMilli);
  writer.Sync(kCompute);
  if (step % 8 == 7) writer.Collective(Function::ncclAllReduce, 0, 2, kFloat32, kCompute, kMax);
}

void NumberSites(int section, Ops* ops) {
  std::uint32_t index = 0;
  for (Op& op : *ops) op.site = static_cast<std::uint32_t>(0x401000 + std::min(section, 1) * 0x8000 + 0x14 * index++);
}

void Apply(const Edit& edit, Ops* ops) {
  const auto at = ops->begin() + std::min<std::ptrdiff_t>(edit.index, static_cast<std::ptrdiff_t>(ops->size()));
  switch (edit.how) {
    case Edit::How::kInsert: ops->insert(at, edit.ops.begin(), edit.ops.end()); break;
    case Edit::How::kReplace:
      *at = edit.ops.front();
      ops->insert(at + 1, edit.ops.begin() + 1, edit.ops.end());
      break;
    case Edit::How::kCut:
      ops->erase(at, ops->end());
      ops->insert(ops->end(), edit.ops.begin(), edit.ops.end());
      break;
  }
}

}  // namespace

int Job::Add(Comm comm) {
  const int index = static_cast<int>(comms.size());
  for (const int rank : comm.members) comms_of[static_cast<std::size_t>(rank)].push_back(index);
  comms.push_back(std::move(comm));
  return index;
}

void Job::AddAll(const std::vector<std::vector<int>>& groups, const std::string& label) {
  std::uint64_t ordinal = 0;
  for (const Comm& comm : comms)
    if (comm.parent == 0) ordinal = std::max(ordinal, comm.ordinal + 1);
  std::int32_t color = 0;
  for (const std::vector<int>& members : groups)
    Add({.members = members, .label = label, .parent = by_split ? 0 : -1, .ordinal = ordinal, .color = color++});
}

int Job::CommOf(int rank, const std::string& label) const {
  for (const int comm : comms_of[static_cast<std::size_t>(rank)])
    if (comms[static_cast<std::size_t>(comm)].label == label) return comm;
  return -1;
}

Ops Job::PlainSection(int rank, int section) const {
  Ops ops;
  if (section == 0) {
    Begin(*this, rank, &ops);
  } else if (section <= steps) {
    topology->Step(rank, section, &ops);
    EndStep(*this, rank, section, &ops);
  } else {
    End(*this, rank, &ops);
  }
  NumberSites(section, &ops);
  return ops;
}

bool Job::MarksStarts(int rank) const {
  constexpr std::uint64_t kWhich = 0x57a8;
  return starts == Starts::kAll ||
         (starts == Starts::kSome && Chance(shape.seed).Bits(kWhich, static_cast<std::uint64_t>(rank)) % 2 == 0);
}

bool Job::Next(int rank, int section, Ops* ops) const {
  if (section >= sections()) return false;
  *ops = Section(rank, section);
  return true;
}

Ops Job::Section(int rank, int section) const {
  Ops ops = PlainSection(rank, section);
  const auto found = edits.find(rank);
  if (found == edits.end()) return ops;
  std::vector<const Edit*> own;
  for (const Edit& edit : found->second)
    if (edit.section == section) own.push_back(&edit);
  // From the back, so that the indices of the others stay right.
  std::stable_sort(own.begin(), own.end(), [](const Edit* a, const Edit* b) { return a->index > b->index; });
  for (const Edit* edit : own) Apply(*edit, &ops);
  return ops;
}

void Writer::Collective(Function function, int comm, std::uint64_t count, std::uint8_t dtype, std::uint8_t stream,
                        std::uint8_t reduction, int root) {
  Put({.what = Do::kCall,
       .stream = stream,
       .dtype = dtype,
       .reduction = reduction,
       .root = root,
       .comm = comm,
       .function = function,
       .count = count});
}

void Writer::Message(Function function, int comm, int peer, std::uint64_t count, std::uint8_t dtype,
                     std::uint8_t stream) {
  Put({.what = Do::kCall,
       .stream = stream,
       .dtype = dtype,
       .root = peer,
       .comm = comm,
       .function = function,
       .count = count});
}

}  // namespace ncclwatch::jobs
