#include "analyzer/import/words.h"

namespace ncclwatch::analyzer::import {
namespace {

Key KeyOf(std::string_view text) {
  static const absl::flat_hash_map<std::string_view, Key, std::hash<std::string_view>> keys = {
      {"version", Key::kVersion},
      {"rank", Key::kRank},
      {"entries", Key::kEntries},
      {"pg_config", Key::kPgConfig},
      {"pg_status", Key::kPgStatus},
      {"pg_id", Key::kPgId},
      {"last_enqueued_collective", Key::kLastEnqueued},
      {"record_id", Key::kRecordId},
      {"process_group", Key::kProcessGroup},
      {"collective_seq_id", Key::kCollectiveSeq},
      {"p2p_seq_id", Key::kP2pSeq},
      {"profiling_name", Key::kProfilingName},
      {"time_created_ns", Key::kTimeCreated},
      {"time_discovered_started_ns", Key::kTimeStarted},
      {"time_discovered_completed_ns", Key::kTimeCompleted},
      {"input_sizes", Key::kInputSizes},
      {"input_dtypes", Key::kInputDtypes},
      {"output_sizes", Key::kOutputSizes},
      {"output_dtypes", Key::kOutputDtypes},
      {"state", Key::kState},
      {"retired", Key::kRetired},
      {"timeout_ms", Key::kTimeout},
      {"is_p2p", Key::kIsP2p},
      {"frames", Key::kFrames},
      {"thread_id", Key::kThreadId},
      {"name", Key::kName},
      {"desc", Key::kDescription},
      {"ranks", Key::kRanks},
      {"filename", Key::kFilename},
      {"line", Key::kLine},
  };
  const auto found = keys.find(text);
  return found == keys.end() ? Key::kOther : found->second;
}

}  // namespace

std::uint32_t Words::LookAt(ValueId value) {
  if (!tree_.Is(value, ValueKind::kString)) return 0;
  const std::string_view text = tree_.text(value);
  const auto [found, fresh] = numbers_.try_emplace(text, static_cast<std::uint32_t>(words_.size()));
  if (fresh) {
    Word word;
    word.text = text;
    word.key = KeyOf(text);
    word.completed = text == "completed";
    word.type = ParseScalarType(text);
    word.operation = ParseOperation(text);
    words_.push_back(word);
  }
  return number_of_[value] = found->second;
}

}  // namespace ncclwatch::analyzer::import
