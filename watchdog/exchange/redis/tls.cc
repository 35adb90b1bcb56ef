#include "watchdog/exchange/redis/tls.h"

#include <arpa/inet.h>
#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kMostFile = 8u << 20;
// Where distributions keep the authorities that they believe.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
                                    "/etc/ssl/cert.pem"};
constexpr unsigned char kIpAddress = 0x87;  // in a certificate's list of names

int Random(void*, unsigned char* to, std::size_t bytes) {
  return RandomBytes({to, bytes}) ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

std::string TlsErrorText(int error) {
  char text[160] = {};
  mbedtls_strerror(error, text, sizeof(text));
  return text;
}

int SendSome(void* fd, const unsigned char* bytes, std::size_t size) {
  const ssize_t n = send(*static_cast<const int*>(fd), bytes, size, MSG_NOSIGNAL);
  if (n >= 0) return static_cast<int>(n);
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE
                                                                   : MBEDTLS_ERR_SSL_CONN_EOF;
}

int ReceiveSome(void* fd, unsigned char* to, std::size_t most) {
  const ssize_t n = recv(*static_cast<const int*>(fd), to, most, 0);
  if (n >= 0) return static_cast<int>(n);
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_READ
                                                                   : MBEDTLS_ERR_SSL_CONN_EOF;
}

// 4 or 16 bytes, as certificates have them; empty: a name.
std::string NumberOf(const std::string& host) {
  std::array<char, 16> number{};
  if (inet_pton(AF_INET, host.c_str(), number.data()) == 1) return {number.data(), 4};
  if (inet_pton(AF_INET6, host.c_str(), number.data()) == 1) return {number.data(), 16};
  return {};
}

}  // namespace

struct TlsTrust::State {
  State() {
    mbedtls_ssl_config_init(&config);
    mbedtls_x509_crt_init(&authorities);
    mbedtls_x509_crt_init(&own);
    mbedtls_pk_init(&key);
  }
  ~State() {
    mbedtls_ssl_config_free(&config);
    mbedtls_x509_crt_free(&authorities);
    mbedtls_x509_crt_free(&own);
    mbedtls_pk_free(&key);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  mbedtls_ssl_config config;
  mbedtls_x509_crt authorities, own;
  mbedtls_pk_context key;
  std::string name;  // the server's, as its certificate must have it
};

namespace {

std::span<const unsigned char> WithNul(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.c_str()), text.size() + 1};
}

bool Parse(const std::string& path, mbedtls_x509_crt* to, std::string* why) {
  const std::optional<std::string> text = rundir::ReadSmall(path, kMostFile);
  const int result = text ? mbedtls_x509_crt_parse(to, WithNul(*text).data(), WithNul(*text).size()) : 0;
  // More than 0: so many of them make no sense here, as in bundles of a whole system.
  if (text && result >= 0 && to->version != 0) return true;
  *why = path + (text ? ": no certificate: " + TlsErrorText(result) : ": cannot be read");
  return false;
}

bool ParseKey(const std::string& path, mbedtls_pk_context* to, std::string* why) {
  const std::optional<std::string> text = rundir::ReadSmall(path, kMostFile);
  int result = 0;
  if (text)
#if MBEDTLS_VERSION_MAJOR >= 3
    result = mbedtls_pk_parse_key(to, WithNul(*text).data(), WithNul(*text).size(), nullptr, 0, Random, nullptr);
#else
    result = mbedtls_pk_parse_key(to, WithNul(*text).data(), WithNul(*text).size(), nullptr, 0);
#endif
  if (text && result == 0) return true;
  *why = path + (text ? ": no key: " + TlsErrorText(result) : ": cannot be read");
  return false;
}

bool ParseAuthorities(const std::string& path, mbedtls_x509_crt* to, std::string* why) {
  if (!path.empty()) return Parse(path, to, why);
  for (const char* const bundle : kBundles)
    if (Parse(bundle, to, why)) return true;
  *why = "no list of certificate authorities found here: rediss://host?ca=/path names one";
  return false;
}

}  // namespace

TlsTrust::TlsTrust() : state_(std::make_unique<State>()) {}
TlsTrust::~TlsTrust() = default;

std::unique_ptr<TlsTrust> TlsTrust::Make(const settings::Tls& tls, const std::string& host, std::string* why) {
  std::unique_ptr<TlsTrust> trust(new TlsTrust());
  State& state = *trust->state_;
  state.name = tls.name.empty() ? host : tls.name;
  if (!ParseAuthorities(tls.ca, &state.authorities, why)) return nullptr;
  mbedtls_ssl_config* const config = &state.config;
  if (mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                  MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
    *why = "out of memory";
    return nullptr;
  }
  mbedtls_ssl_conf_rng(config, Random, nullptr);
  mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
  mbedtls_ssl_conf_ca_chain(config, &state.authorities, nullptr);
  // 1.2 alone: what Mbed TLS has of 1.3 wants state of the process.
  mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
  mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
  if (tls.cert.empty()) return trust;
  if (!Parse(tls.cert, &state.own, why) || !ParseKey(tls.key.empty() ? tls.cert : tls.key, &state.key, why))
    return nullptr;
  if (mbedtls_ssl_conf_own_cert(config, &state.own, &state.key) == 0) return trust;
  *why = "out of memory";
  return nullptr;
}

struct TlsStream::State {
  State(const TlsTrust::State& from, int socket) : trust(from), fd(socket) { mbedtls_ssl_init(&context); }
  ~State() { mbedtls_ssl_free(&context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const TlsTrust::State& trust;
  int fd;
  mbedtls_ssl_context context;
  std::size_t begun = 0;  // bytes of a Send that is to be made again
};

TlsStream::TlsStream(const TlsTrust& trust, int fd) : state_(std::make_unique<State>(*trust.state_, fd)) {
  mbedtls_ssl_context* const context = &state_->context;
  int result = mbedtls_ssl_setup(context, &trust.state_->config);
  // A number is no name that Mbed TLS would look for: IsHost does.
  const bool numeric = !NumberOf(trust.state_->name).empty();
  if (result == 0) result = mbedtls_ssl_set_hostname(context, numeric ? nullptr : trust.state_->name.c_str());
  if (result != 0) why_ = TlsErrorText(result);
  mbedtls_ssl_set_bio(context, &state_->fd, SendSome, ReceiveSome, nullptr);
}

TlsStream::~TlsStream() = default;

// Its certificate has the address among its names.
bool TlsStream::IsHost() {
  const std::string number = NumberOf(state_->trust.name);
  if (number.empty()) return true;
  const mbedtls_x509_crt* const peer = mbedtls_ssl_get_peer_cert(&state_->context);
  if (!peer) return false;
  for (const mbedtls_x509_sequence* name = &peer->subject_alt_names; name; name = name->next)
    if (name->buf.tag == kIpAddress && name->buf.len == number.size() &&
        std::memcmp(name->buf.p, number.data(), number.size()) == 0)
      return true;
  return false;
}

ssize_t TlsStream::Later(int result) {
  if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE) {
    wants_to_write_ = result == MBEDTLS_ERR_SSL_WANT_WRITE;
    errno = EAGAIN;
    return -1;
  }
  const std::uint32_t wrong = mbedtls_ssl_get_verify_result(&state_->context);
  if (result == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && wrong != 0) {
    char text[256] = {};
    mbedtls_x509_crt_verify_info(text, sizeof(text), "", wrong);
    why_ = std::string("TLS: ") + std::string(text, strcspn(text, "\n"));
  } else if (result == MBEDTLS_ERR_SSL_CONN_EOF) {
    why_ = open_ ? "closed the connection" : "closed the connection before TLS was agreed on";
  } else {
    why_ = "TLS: " + TlsErrorText(result);
  }
  errno = EPROTO;
  return -1;
}

bool TlsStream::Shake() {
  if (!why_.empty()) {
    errno = EPROTO;
    return false;
  }
  if (open_) return true;
  if (const int result = mbedtls_ssl_handshake(&state_->context); result != 0) return Later(result) == 0;
  if (!IsHost()) {
    why_ = "TLS: the server's certificate is not of " + state_->trust.name;
    errno = EPROTO;
    return false;
  }
  wants_to_write_ = false;
  return open_ = true;
}

ssize_t TlsStream::Send(std::string_view bytes) {
  if (!Shake()) return -1;
  // What has begun is to be asked for again as it was.
  const std::size_t size = state_->begun != 0 ? std::min(state_->begun, bytes.size()) : bytes.size();
  const int n = mbedtls_ssl_write(&state_->context, reinterpret_cast<const unsigned char*>(bytes.data()), size);
  state_->begun = n == MBEDTLS_ERR_SSL_WANT_WRITE ? size : 0;
  if (n < 0) return Later(n);
  wants_to_write_ = false;
  return n;
}

ssize_t TlsStream::Receive(char* to, std::size_t most) {
  if (!Shake()) return -1;
  const int n = mbedtls_ssl_read(&state_->context, reinterpret_cast<unsigned char*>(to), most);
  if (n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || n == 0) return 0;
  return n > 0 ? n : Later(n);
}

}  // namespace ncclwatch::exchange
