// A small HTTP server on one thread. Clients are served side by side, so that a slow one delays nobody else. Each
// connection serves one request, within a time limit. If there are too many connections, the oldest one is closed.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(std::string_view path)>;  // the path has no query

  // `where`: "[address]:port", a number, IPv6 in brackets; without an address 127.0.0.1. If `token` is not empty, every
  // request needs it. InvalidArgument: `where` has another form; AlreadyExists: the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Open(std::string_view where, std::string token, Handler handler);
  ~HttpServer();

  void ServeFor(std::chrono::milliseconds time);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace ncclwatch::analyzer
