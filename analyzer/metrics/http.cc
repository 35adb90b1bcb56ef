#include "analyzer/metrics/http.h"

#include <fmt/core.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <utility>

#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/settings/bind_address.h"

namespace ncclwatch::analyzer {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;
using tcp = asio::ip::tcp;
using Response = http::response<http::string_body>;

constexpr std::size_t kMostConnections = 64;
constexpr std::chrono::seconds kToRead(5), kToWrite(5);  // for the whole request and the whole response
constexpr std::uint32_t kMostHeader = 8192;

Response MakeResponse(HttpAnswer answer) {
  Response response(static_cast<http::status>(answer.status), 11);
  response.set(http::field::content_type, answer.type);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  response.keep_alive(false);
  return response;
}

using Request = http::request<http::empty_body>;

// Its pending operations own it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(tcp::socket socket) : stream_(std::move(socket)) { parser_.header_limit(kMostHeader); }

  // `done` is called at the end, also after Close.
  void Serve(const std::function<Response(const Request&)>& respond, std::function<void()> done) {
    done_ = std::move(done);
    stream_.expires_after(kToRead);
    http::async_read(stream_, buffer_, parser_, [self = shared_from_this(), respond](error_code error, std::size_t) {
      if (!error)
        self->Send(respond(self->parser_.get()));
      else if (error == http::error::header_limit)
        self->Send(MakeResponse({.status = 431, .body = "the header is too long\n"}));
      else if (error != http::error::end_of_stream && error != http::error::partial_message && IsOfHttp(error))
        self->Send(MakeResponse({.status = 400, .body = "not HTTP, or a request with a body\n"}));
      else
        self->done_();
    });
  }
  void Close() { stream_.close(); }

 private:
  static bool IsOfHttp(error_code error) {
    return error.category() == make_error_code(http::error::bad_method).category();
  }
  void Send(Response response) {
    response_ = std::move(response);
    stream_.expires_after(kToWrite);
    http::async_write(stream_, response_, [self = shared_from_this()](error_code, std::size_t) {
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      self->done_();
    });
  }

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Response response_;
  std::function<void()> done_;
};

}  // namespace

struct HttpServer::State {
  State(std::string secret, Handler answer) : token(std::move(secret)), handler(std::move(answer)) {}

  void Accept() {
    accepting = true;
    acceptor.async_accept([this](error_code error, tcp::socket socket) {
      accepting = false;
      // If there are no free descriptors, the oldest connection makes room too. Then ServeFor accepts again.
      if (!connections.empty() && (error || connections.size() >= kMostConnections)) {
        connections.front()->Close();
        connections.pop_front();
      }
      if (error) return;
      const auto one = connections.emplace_back(std::make_shared<Connection>(std::move(socket)));
      one->Serve(
          [this](const Request& request) { return Respond(request); },
          [this, key = one.get()] { std::erase_if(connections, [=](auto& other) { return other.get() == key; }); });
      Accept();
    });
  }

  Response Respond(const Request& request) const {
    const string_view given = request[http::field::authorization], target = request.target();
    if (!token.empty() && !exchange::SameBytes(std::string_view(given.data(), given.size()), "Bearer " + token)) {
      Response refused = MakeResponse({.status = 401, .body = "Authorization: Bearer TOKEN is needed\n"});
      refused.set(http::field::www_authenticate, "Bearer");
      return refused;
    }
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      return MakeResponse({.status = 405, .body = "only GET is understood\n"});
    const std::string_view path(target.data(), target.size());
    Response response = MakeResponse(handler(path.substr(0, path.find('?'))));
    if (request.method() == http::verb::head) response.body().clear();  // Content-Length stays
    return response;
  }

  const std::string token;
  const Handler handler;
  asio::io_context context{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  tcp::acceptor acceptor{context};
  std::list<std::shared_ptr<Connection>> connections;  // the oldest first
  bool accepting = false;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(std::string_view where, std::string token,
                                                             Handler handler) {
  const auto bind_to = settings::ParseBind(where);
  if (!bind_to || bind_to->prefix >= 0 || bind_to->first == 0 || bind_to->first != bind_to->last)
    return absl::InvalidArgumentError(fmt::format("'{}' is not [address]:port", where));
  error_code error;
  const auto address = asio::ip::make_address(bind_to->address.empty() ? "127.0.0.1" : bind_to->address, error);
  if (error) return absl::InvalidArgumentError(fmt::format("'{}' has no address in numbers", where));
  auto state = std::make_unique<State>(std::move(token), std::move(handler));
  const tcp::endpoint endpoint(address, bind_to->first);
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(kMostConnections, error);
  if (error) {
    const std::string reason = fmt::format("{}: {}", where, error.message());
    return error == asio::error::address_in_use ? absl::AlreadyExistsError(reason) : absl::UnavailableError(reason);
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

void HttpServer::ServeFor(std::chrono::milliseconds time) {
  if (!state_->accepting) state_->Accept();
  state_->context.run_for(time);
}

}  // namespace ncclwatch::analyzer
