#include "watchdog/exchange/net/resolver.h"

#include <netdb.h>
#include <strings.h>

#include <algorithm>

#include "watchdog/act/thread.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kAskAgain_ns = 5'000'000'000;

void Add(std::vector<Endpoint>* found, const Endpoint& endpoint) {
  if (std::find(found->begin(), found->end(), endpoint) == found->end()) found->push_back(endpoint);
}

std::string_view NextWord(std::string_view* line) {
  const std::size_t begin = std::min(line->find_first_not_of(" \t\r"), line->size());
  line->remove_prefix(begin);
  const std::size_t end = std::min(line->find_first_of(" \t\r"), line->size());
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(end);
  return word;
}

void AskLibrary(const std::string& host, std::vector<Endpoint>* found) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* results = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &results) != 0) return;
  for (const addrinfo* one = results; one; one = one->ai_next) {
    sockaddr_storage address{};
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), std::min<std::size_t>(one->ai_addrlen, sizeof(address)),
                reinterpret_cast<char*>(&address));
    if (const std::optional<Endpoint> endpoint = Endpoint::Of(address)) Add(found, endpoint->With(0));
  }
  freeaddrinfo(results);
}

}  // namespace

std::vector<Endpoint> InHostsFile(std::string_view file, std::string_view name) {
  std::vector<Endpoint> found;
  while (!file.empty()) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    line = line.substr(0, line.find('#'));
    const std::optional<Endpoint> endpoint = Endpoint::Parse(NextWord(&line), 0);
    if (!endpoint) continue;
    for (std::string_view word = NextWord(&line); !word.empty(); word = NextWord(&line))
      if (word.size() == name.size() && strncasecmp(word.data(), name.data(), name.size()) == 0) Add(&found, *endpoint);
  }
  return found;
}

bool Resolver::Tick(std::int64_t now_ns) {
  if (asked_) {
    if (!asked_->done.load(std::memory_order_acquire)) return false;
    for (const Endpoint& endpoint : asked_->found) Add(&found_, endpoint);
    asked_.reset();
    settled_ = true;
    return !found_.empty();
  }
  if (now_ns < ask_again_ns_ || (settled_ && !found_.empty())) return false;
  ask_again_ns_ = now_ns + kAskAgain_ns;
  auto asked = std::make_shared<Asked>();
  const std::string file = rundir::ReadSmall("/etc/hosts").value_or("");
  for (const std::string& host : hosts_) {
    const std::optional<Endpoint> number = Endpoint::Parse(host, 0);
    const std::vector<Endpoint> known = number ? std::vector{*number} : InHostsFile(file, host);
    for (const Endpoint& endpoint : known) Add(&found_, endpoint);
    if (known.empty()) asked->hosts.push_back(host);
  }
  if (asked->hosts.empty()) {
    settled_ = true;
    return true;
  }
  const bool started = act::StartThread("ncclwatch-names", [asked] {
    for (const std::string& host : asked->hosts) AskLibrary(host, &asked->found);
    asked->done.store(true, std::memory_order_release);
  });
  if (started) asked_ = std::move(asked);
  return !found_.empty();
}

}  // namespace ncclwatch::exchange
