// Recorded calls of one piece as operations of the simulation.
#pragma once

#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

class CallTranslator {
 public:
  CallTranslator(const RecordedProgram& program, int rank, const Piece& piece);
  void Translate(simulation::Ops* ops);

 private:
  std::int64_t GapBefore(const reader::Call& call) const;
  void TakeNoTime(std::size_t first);
  void Add(const reader::Call& call);
  void AddNccl(const reader::Call& call, const functions::FunctionInfo& info);
  const reader::Communicator* CommunicatorOf(const reader::Call& call) const;
  bool NeverFinished(const reader::Call& call) const;
  bool NeverStarted(const reader::Call& call) const;
  void AddGroup(const reader::Call& call);
  void AddCreation(const reader::Call& call);
  void AddMpi(const reader::Call& call, const functions::FunctionInfo& info);
  void AddCommunication(const reader::Call& call, bool message);
  void EndExchange();
  void AddCompletion(const reader::Call& call);
  void AsRecorded(const reader::Call& call, bool modelled);  // it takes as long as it took
  simulation::Op OpOf(const reader::Call& call, simulation::Do what);
  int CommOf(const reader::Call& call) const;  // -1: none, or not known
  int WorldOfMpi() const;
  void Put(simulation::Do what, std::uint64_t record) { ops_->push_back({.what = what, .count = record}); }

  const RecordedProgram& program_;
  RecordedProgram::Source& source_;
  const int rank_;
  const Piece& piece_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, int> comms_;  // by index and generation
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> ids_;
  simulation::Ops* ops_ = nullptr;
};

}  // namespace ncclwatch::analyzer
