#include "watchdog/exchange/redis/reply.h"

#include <fmt/format.h>
#include <hiredis/read.h>

#include <algorithm>
#include <exception>

namespace ncclwatch::exchange {
namespace {

// Called by hiredis' reader, through which nothing may be thrown. Null means out of memory to it. Its numbers of
// elements are int or size_t, depending on its version.
template <typename Make>
void* Made(const redisReadTask* task, Make make) {
  ReplyReader::Taken& taken = *static_cast<ReplyReader::Taken*>(task->privdata);
  if (task->parent == nullptr) ++taken.elements;  // those of lists are counted with their lists
  if (taken.TooMuch()) return nullptr;
  try {
    auto reply = std::make_unique<Reply>();
    make(reply.get());
    Reply* const made = reply.get();
    if (task->parent)
      static_cast<Reply*>(task->parent->obj)->list.at(static_cast<std::size_t>(task->idx)) = std::move(reply);
    else
      static_cast<void>(reply.release());
    return made;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void* Text(const redisReadTask* task, char* text, std::size_t size) {
  static_cast<ReplyReader::Taken*>(task->privdata)->bytes += size;
  return Made(task, [&](Reply* reply) {
    reply->kind = task->type == REDIS_REPLY_ERROR ? Reply::Kind::kError : Reply::Kind::kText;
    reply->text.assign(text, size);
  });
}

void* Number(const redisReadTask* task, long long number) {
  return Made(task, [&](Reply* reply) {
    reply->kind = Reply::Kind::kNumber;
    reply->number = number;
  });
}

void* Nil(const redisReadTask* task) {
  return Made(task, [](Reply*) {});
}

constexpr auto kList = [](const redisReadTask* task, auto elements) -> void* {
  if (static_cast<long long>(elements) < 0) return nullptr;
  // Before there is memory for them: eight bytes announce as many as they like.
  ReplyReader::Taken& taken = *static_cast<ReplyReader::Taken*>(task->privdata);
  taken.elements += std::min(static_cast<std::size_t>(elements), ReplyReader::kMostElements + 1);
  return Made(task, [&](Reply* reply) {
    reply->kind = Reply::Kind::kList;
    reply->list.resize(static_cast<std::size_t>(elements));
    // One that is cut off in the middle must not leave holes.
    for (std::unique_ptr<Reply>& element : reply->list) element = std::make_unique<Reply>();
  });
};

// The elements belong to their list.
void Free(void* reply) { delete static_cast<Reply*>(reply); }

redisReplyObjectFunctions* Functions() {
  static redisReplyObjectFunctions functions = [] {
    redisReplyObjectFunctions made{};
    made.createString = Text;
    made.createArray = kList;
    made.createInteger = Number;
    made.createNil = Nil;
    made.freeObject = Free;
    return made;
  }();
  return &functions;
}

}  // namespace

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(Functions())), failed_(reader_ == nullptr) {
  if (reader_) reader_->privdata = &taken_;
}

const char* ReplyReader::why() const {
  return taken_.TooMuch() ? "sends more at once than is taken" : "does not speak Redis' protocol";
}

ReplyReader::~ReplyReader() {
  if (reader_) redisReaderFree(reader_);
}

bool ReplyReader::Feed(std::string_view bytes) {
  if (failed_) return false;
  if (reader_->len > kMostBytes) taken_.bytes = kMostBytes + 1;  // one text that is longer
  failed_ = taken_.TooMuch() || redisReaderFeed(reader_, bytes.data(), bytes.size()) != REDIS_OK;
  return !failed_;
}

std::unique_ptr<Reply> ReplyReader::Take() {
  void* reply = nullptr;
  if (failed_ || redisReaderGetReply(reader_, &reply) != REDIS_OK) {
    failed_ = true;
    return nullptr;
  }
  if (reply) taken_ = {};
  return std::unique_ptr<Reply>(static_cast<Reply*>(reply));
}

void AppendCommand(const std::vector<std::string_view>& words, std::string* out) {
  *out += fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) *out += fmt::format("${}\r\n{}\r\n", word.size(), word);
}

}  // namespace ncclwatch::exchange
