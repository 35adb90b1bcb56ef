// Redis' protocol: hiredis' reader, which neither blocks nor owns a connection, with replies of our own. Bounded: a
// server that announces more than a sane reply is not believed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace ncclwatch::exchange {

struct Reply {
  enum class Kind { kNil, kText, kNumber, kList, kError };
  Kind kind = Kind::kNil;
  std::string text;  // of kText and kError
  std::int64_t number = 0;
  std::vector<std::unique_ptr<Reply>> list;  // none of them null

  bool IsError() const { return kind == Kind::kError; }
};

class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // False: what came is no reply of Redis, or too large; nothing more will be read.
  bool Feed(std::string_view bytes);
  // The oldest whole reply; null: none (yet), or Failed().
  std::unique_ptr<Reply> Take();
  bool Failed() const { return failed_; }
  const char* why() const;

  static constexpr std::size_t kMostElements = 1 << 16;  // of one reply, however deep
  static constexpr std::size_t kMostBytes = 128u << 20;

  // What one reply has taken so far.
  struct Taken {
    std::size_t elements = 0, bytes = 0;
    bool TooMuch() const { return elements > kMostElements || bytes > kMostBytes; }
  };

 private:
  redisReader* reader_;
  Taken taken_;
  bool failed_ = false;
};

// One command as Redis takes it, appended.
void AppendCommand(const std::vector<std::string_view>& words, std::string* out);

}  // namespace ncclwatch::exchange
