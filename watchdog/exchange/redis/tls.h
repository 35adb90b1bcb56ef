// TLS 1.2 to a server, over a socket that does not block: Mbed TLS, linked statically, which keeps no state of the
// process, starts nothing and leaves nothing to be done at exit (OpenSSL does all three). The other side is always
// checked.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "watchdog/settings/exchange_address.h"

namespace ncclwatch::exchange {

// Whom to believe, and who we are. Shared by connections, which must not outlive it.
class TlsTrust {
 public:
  // Null and a reason: a file that is not there, or of no sense.
  static std::unique_ptr<TlsTrust> Make(const settings::Tls& tls, const std::string& host, std::string* why);
  ~TlsTrust();
  TlsTrust(const TlsTrust&) = delete;
  TlsTrust& operator=(const TlsTrust&) = delete;

 private:
  friend class TlsStream;
  struct State;
  TlsTrust();
  std::unique_ptr<State> state_;
};

class TlsStream {
 public:
  TlsStream(const TlsTrust& trust, int fd);  // connected
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // As send and recv: -1 with errno EAGAIN: later; another errno: why() says what was wrong. Both shake hands first.
  ssize_t Send(std::string_view bytes);
  ssize_t Receive(char* to, std::size_t most);
  bool wants_to_write() const { return wants_to_write_; }  // what is waited for is not something to be read
  const std::string& why() const { return why_; }

 private:
  struct State;
  bool Shake();
  ssize_t Later(int result);
  bool IsHost();

  std::unique_ptr<State> state_;
  bool open_ = false, wants_to_write_ = false;
  std::string why_;
};

}  // namespace ncclwatch::exchange
