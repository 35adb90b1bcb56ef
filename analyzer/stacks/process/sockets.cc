#include "analyzer/stacks/process/sockets.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <cstring>
#include <sstream>
#include <vector>

#include "analyzer/files/descriptor.h"
#include "analyzer/stacks/threads/proc_folder.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostTable = 16u << 20;
constexpr std::array kTcpStates = {"?",         "established", "connecting", "connecting",         "closing",
                                   "closing",   "closing",     "closed",     "closed by the peer", "closing",
                                   "listening", "closing"};

bool SameNetwork(int pid) {
  struct stat own {
  }, other{};
  return stat("/proc/self/ns/net", &own) == 0 && stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &other) == 0 &&
         own.st_ino == other.st_ino;
}

struct Question {
  nlmsghdr header;
  unix_diag_req request;
};

std::optional<std::uint64_t> PeerIn(const char* bytes, std::size_t length) {
  const auto* header = reinterpret_cast<const nlmsghdr*>(bytes);
  if (!NLMSG_OK(header, length) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  const auto* const message = static_cast<const unix_diag_msg*>(NLMSG_DATA(header));
  const auto* attribute = reinterpret_cast<const rtattr*>(message + 1);
  auto left = static_cast<long>(header->nlmsg_len) - static_cast<long>(NLMSG_LENGTH(sizeof(*message)));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    std::uint32_t peer = 0;
    if (attribute->rta_type != UNIX_DIAG_PEER || RTA_PAYLOAD(attribute) < sizeof(peer)) continue;
    std::memcpy(&peer, RTA_DATA(attribute), sizeof(peer));
    return peer;
  }
  return 0;
}

}  // namespace

std::string AddressText(const std::string& hexadecimal) {
  const std::size_t colon = hexadecimal.find(':');
  unsigned port = 0;
  if (colon != 8 && colon != 32) return "";
  std::from_chars(hexadecimal.data() + colon + 1, hexadecimal.data() + hexadecimal.size(), port, 16);
  std::array<std::uint32_t, 4> words{};  // each in this machine's order, of bytes in the network's
  for (std::size_t i = 0; i < colon / 8; ++i)
    std::from_chars(hexadecimal.data() + i * 8, hexadecimal.data() + i * 8 + 8, words[i], 16);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool wide = colon == 32;
  if (!inet_ntop(wide ? AF_INET6 : AF_INET, words.data(), text.data(), text.size())) return "";
  return fmt::format("{}{}{}:{}", wide ? "[" : "", text.data(), wide ? "]" : "", port);
}

void TcpTable::Read(const char* name) {
  const ProcFolder folder(fmt::format("/proc/{}/net", pid_));
  std::istringstream lines(folder.Read(name, kMostTable).value_or(""));
  std::string line;
  std::getline(lines, line);  // titles
  while (std::getline(lines, line)) {
    // "0: 0100007F:1F90 00000000:0000 0A tx:rx tr:when retrans uid timeout inode"
    std::istringstream words(line);
    std::string number, state, skipped;
    Row row;
    words >> number >> row.local >> row.remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >>
        row.inode;
    std::from_chars(state.data(), state.data() + state.size(), row.state, 16);
    if (words) rows_.push_back(std::move(row));
  }
}

std::optional<TcpSocket> TcpTable::Find(std::uint64_t inode) {
  if (!read_)
    for (const char* name : {"tcp", "tcp6"}) Read(name);
  read_ = true;
  for (const Row& row : rows_) {
    if (row.inode != inode) continue;
    TcpSocket socket{AddressText(row.local), AddressText(row.remote),
                     kTcpStates[row.state < kTcpStates.size() ? row.state : 0], 0};
    for (const Row& other : rows_)
      if (other.local == row.remote && other.remote == row.local) socket.peer_inode = other.inode;
    return socket;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> UnixPeer(int pid, std::uint64_t inode) {
  if (!SameNetwork(pid)) return std::nullopt;
  const analyzer::Descriptor netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return std::nullopt;
  Question question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = UINT32_MAX;
  question.request.udiag_ino = static_cast<std::uint32_t>(inode);
  question.request.udiag_show = UDIAG_SHOW_PEER;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = UINT32_MAX;  // any
  std::optional<std::uint64_t> peer;
  alignas(nlmsghdr) std::array<char, 4096> answer;
  if (send(netlink.get(), &question, sizeof(question), 0) == static_cast<ssize_t>(sizeof(question))) {
    const ssize_t bytes =
        recv(netlink.get(), answer.data(), answer.size(), MSG_DONTWAIT);  // the kernel answers within send
    if (bytes > 0) peer = PeerIn(answer.data(), static_cast<std::size_t>(bytes));
  }
  return peer;
}

}  // namespace ncclwatch::stacks
