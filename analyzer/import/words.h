// The strings of one dump by what they mean, each looked at once: a dump says the same few hundred thousand times.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "analyzer/import/base/torch_words.h"
#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

// Keys of the dictionaries in a dump.
enum class Key : std::uint8_t {
  kOther,
  kVersion,
  kRank,
  kEntries,
  kPgConfig,
  kPgStatus,
  kPgId,
  kLastEnqueued,
  kRecordId,
  kProcessGroup,
  kCollectiveSeq,
  kP2pSeq,
  kProfilingName,
  kTimeCreated,
  kTimeStarted,
  kTimeCompleted,
  kInputSizes,
  kInputDtypes,
  kOutputSizes,
  kOutputDtypes,
  kState,
  kRetired,
  kTimeout,
  kIsP2p,
  kFrames,
  kThreadId,
  kName,
  kDescription,
  kRanks,
  kFilename,
  kLine,
};

struct Word {
  std::string_view text;
  Key key = Key::kOther;
  bool completed = false;  // the state of that name
  ScalarType type{};
  Operation operation;
};

class Words {
 public:
  explicit Words(const Tree& tree) : tree_(tree), number_of_(tree.size(), 0), words_(1) {}
  // Of a string; anything else is the empty word.
  // Valid until the next new string.
  const Word& Of(ValueId value) { return words_[NumberOf(value)]; }
  // Equal for equal strings.
  std::uint32_t NumberOf(ValueId value) {
    const std::uint32_t number = number_of_[value];
    return number != 0 ? number : LookAt(value);
  }

 private:
  std::uint32_t LookAt(ValueId value);

  const Tree& tree_;
  std::vector<std::uint32_t> number_of_;  // by value: its place in words_, 0 not looked at yet
  std::vector<Word> words_;
  // With std's hash: some builds of Abseil have a string_view of their own, and hash no other.
  absl::flat_hash_map<std::string_view, std::uint32_t, std::hash<std::string_view>> numbers_;
};

}  // namespace ncclwatch::analyzer::import
