// A listener that answers GET requests one after another. Who asks slowly is hung up on.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpListener {
 public:
  // "[address]:port": a number, IPv6 in brackets; without an address 127.0.0.1. InvalidArgument: it is not that;
  // AlreadyExists: the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Open(std::string_view where);

  // Answers who asks within that time, at most one; `answer` gets the path, without its query.
  void ServeOne(std::chrono::milliseconds within, const std::function<HttpAnswer(std::string_view path)>& answer);

 private:
  explicit HttpListener(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace ncclwatch::analyzer
