#include "tests/unit/exchange/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/unit/exchange/relay.h"

namespace ncclwatch::testing {

bool RedisServer::IsInstalled() { return std::system("command -v redis-server >/dev/null") == 0; }

RedisServer::RedisServer(std::string password, std::string tls_files, bool clients_too)
    : port_(FreePort()),
      tls_port_(FreePort()),
      password_(std::move(password)),
      tls_files_(std::move(tls_files)),
      clients_too_(clients_too) {
  Start();
}

RedisServer::~RedisServer() { Kill(); }

void RedisServer::Start() {
  const std::string port = std::to_string(port_), tls_port = std::to_string(tls_port_);
  const std::string ca = tls_files_ + "/ca.pem", cert = tls_files_ + "/server.pem", key = tls_files_ + "/server.key";
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    std::vector<const char*> words = {"redis-server", "--port", port.c_str(), "--bind", "127.0.0.1", "--save", "",
                                      "--appendonly", "no",     "--dir",      "/tmp"};
    if (!password_.empty()) words.insert(words.end(), {"--requirepass", password_.c_str()});
    if (!tls_files_.empty())
      words.insert(words.end(),
                   {"--tls-port", tls_port.c_str(), "--tls-ca-cert-file", ca.c_str(), "--tls-cert-file", cert.c_str(),
                    "--tls-key-file", key.c_str(), "--tls-auth-clients", clients_too_ ? "yes" : "no"});
    words.push_back(nullptr);
    execvp(words[0], const_cast<char* const*>(words.data()));
    _exit(127);
  }
  for (int i = 0; i < 10'000 && !Ask({"PING"}); ++i) usleep(1000);
}

void RedisServer::Signal(int signal) const { kill(pid_, signal); }

void RedisServer::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::unique_ptr<exchange::Reply> RedisServer::Ask(const std::vector<std::string_view>& words) const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string command;
  if (!password_.empty()) exchange::AppendCommand({"AUTH", password_}, &command);
  exchange::AppendCommand(words, &command);
  exchange::ReplyReader reader;
  std::unique_ptr<exchange::Reply> reply;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, command.data(), command.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(command.size())) {
    char bytes[65536];
    for (int wanted = password_.empty() ? 1 : 2; wanted > 0;) {
      if ((reply = reader.Take())) {
        --wanted;
        continue;
      }
      const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
      if (n <= 0 || !reader.Feed({bytes, static_cast<std::size_t>(n)})) break;
    }
  }
  close(fd);
  return reply;
}

}  // namespace ncclwatch::testing
