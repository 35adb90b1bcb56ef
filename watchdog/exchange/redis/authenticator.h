// A message as it lies in Redis, where everybody with access to the server can read, repeat and replace it: who sent
// it, into which channel, as which one of its messages, when; all of it encrypted and authenticated under the job's
// token.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watchdog/exchange/protocol/session.h"

namespace ncclwatch::exchange {

struct Note {
  std::uint16_t type = 0;  // Type, or a kind below kFirstOfLeaders of the Redis node's own
  std::string from;        // node
  std::string channel;     // where it was put
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0;  // grows from one message of this sender to the next
  std::int64_t sent_ms = 0;  // by the server's clock, as the sender knows it
  std::uint64_t term = 0;
  std::string body;
};

class MessageAuthenticator {
 public:
  MessageAuthenticator(const Keys& keys, std::string_view job);
  std::string Close(const Note& note) const;               // empty: the kernel has no random bytes to give
  std::optional<Note> Open(std::string_view bytes) const;  // none: damaged, or nobody's of this job

 private:
  std::vector<Digest> keys_;
};

// It was made by another version of ncclwatch.
bool IsOfOtherVersion(std::string_view bytes);

// Has this been said before? Remembers for each sender and channel how far it was.
class Replays {
 public:
  bool IsNew(const Note& note);

 private:
  static constexpr std::size_t kMost = 32768;
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>> last_;
};

}  // namespace ncclwatch::exchange
