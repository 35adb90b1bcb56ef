// Recorded calls of one piece as operations of the simulation, a few at a time.
#pragma once

#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

class CallTranslator {
 public:
  CallTranslator(const RecordedProgram& program, int rank, const Piece& piece);
  bool Translate(simulation::Ops* ops);  // false: the piece has no more

 private:
  void Take(const reader::Call& call);
  bool Has(const reader::Call& call);
  void LoseChildOf(const reader::Call& call);
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
  struct On {
    int comm = -1;         // none, or not known
    std::uint64_t id = 0;  // 0: none
  };
  const On& OnOf(const reader::Call& call) const;
  int CommOf(const reader::Call& call) const { return OnOf(call).comm; }
  std::uint8_t StreamOf(const reader::Call& call);
  int WorldOfMpi() const;
  void Put(simulation::Do what, std::uint64_t record) { ops_->push_back({.what = what, .count = record}); }

  const RecordedProgram& program_;
  RecordedProgram::Source& source_;
  const int rank_;
  const Piece& piece_;
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // index and generation
  absl::flat_hash_map<Key, On> comms_;
  mutable Key last_key_{format::kNoCommunicator, 0};  // calls on one communicator often follow one another
  mutable On last_on_;
  simulation::Ops* ops_ = nullptr;
};

}  // namespace ncclwatch::analyzer
