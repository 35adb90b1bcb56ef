// The calls of one process as columns of numbers, as small as the page wants them (page/calls.js reads them back).
//
// Calls that differ in nothing but numbers have one shape: the line that `trace --json` prints of the first of them.
// The columns tell what differs from it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/jobs/site_lines.h"
#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

class CallColumns {
 public:
  // The newest `most` calls. What cannot be read goes to `failures`.
  CallColumns(const ProcessRecording& process, std::uint64_t most, SiteLines* lines,
              std::vector<reader::Failure>* failures);

  // What the columns mean: rank, host, pid, instants, shapes, the length of each column.
  nlohmann::ordered_json Head() const;
  // Each column after the other, of zigzag numbers of 7 bits a byte; a column of zeroes has no byte.
  std::string Bytes() const;

  std::uint64_t calls() const { return calls_.size(); }
  std::uint64_t left_out() const { return left_out_; }  // older ones
  // CLOCK_REALTIME, 0 without calls.
  std::int64_t first_ns() const { return calls_.empty() ? 0 : calls_.front().entered_ns; }

 private:
  struct Shape {
    std::string line;
    std::int64_t count = 0, bytes = 0, root = 0, position = 0;  // of its first call
  };
  // What calls of one shape have in common.
  struct Key {
    functions::Function function{};
    std::uint32_t communicator = 0, generation = 0, thread = 0, flags = 0;
    std::uint64_t stream = 0, site = 0;
    std::int32_t result = 0;
    std::uint8_t dtype = 0, reduction = 0;
    std::string_view state;
    bool pending = false, has_group = false, has_root = false, has_position = false;
    format::KernelTime kernel;  // without its duration
    std::string payload;
    static auto Tied(const Key& key) {
      return std::tuple(key.function, key.communicator, key.generation, key.thread, key.flags, key.stream, key.site,
                        key.result, key.dtype, key.reduction, key.state, key.pending, key.has_group, key.has_root,
                        key.has_position, key.kernel.clock, key.kernel.algorithm, key.kernel.protocol,
                        key.kernel.channels, std::string_view(key.payload));
    }
    bool operator==(const Key& other) const { return Tied(*this) == Tied(other); }
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), Tied(key));
    }
  };
  struct Call {
    std::int64_t entered_ns, took_ns;  // took: until it returned
    std::int64_t slot, position, group, count, bytes, root, kernel_ns;
    std::uint32_t shape;
  };
  enum Column { kEntered, kTook, kSlot, kShape, kPosition, kGroup, kCount, kBytes, kRoot, kKernel, kColumns };
  using Columns = std::array<std::string, kColumns>;

  void AddPiece(const Piece& piece);
  std::uint32_t ShapeOf(const Piece& piece, const reader::Call& call, const reader::Communicator* communicator);
  std::string LineOf(const Piece& piece, const reader::Call& call, const reader::Communicator* communicator) const;
  Columns Encode() const;

  const ProcessRecording& process_;
  SiteLines* const lines_;
  const std::uint64_t from_slot_;
  const std::int64_t until_ns_;  // CLOCK_MONOTONIC of its node
  std::uint64_t left_out_ = 0;
  std::vector<Call> calls_;  // in order of time
  std::vector<Shape> shapes_;
  absl::flat_hash_map<Key, std::uint32_t> known_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> sites_;  // of those with one name, the first: dumps have many
  Columns columns_;
};

}  // namespace ncclwatch::analyzer
