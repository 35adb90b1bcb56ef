// Where sockets lead to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ncclwatch::stacks {

struct TcpSocket {
  std::string local, remote;     // "10.0.0.2:29500", "[::1]:80"
  std::string state;             // "established", "listening", ...
  std::uint64_t peer_inode = 0;  // of the other end if it is in the same network namespace, 0 if not
};

// The TCP sockets of a process's network namespace, read on the first question.
class TcpTable {
 public:
  explicit TcpTable(int pid) : pid_(pid) {}
  // None if the inode is no TCP socket there.
  std::optional<TcpSocket> Find(std::uint64_t inode);

 private:
  struct Row {
    std::string local, remote;
    unsigned state = 0;
    std::uint64_t inode = 0;
  };
  void Read(const char* name);
  int pid_;
  bool read_ = false;
  std::vector<Row> rows_;
};
// "10.0.0.2:29500" from the form "0200000A:733C" of /proc/net/tcp, also the long one of tcp6; empty if it is neither.
std::string AddressText(const std::string& hexadecimal);

// The inode of the socket that a Unix socket is connected to, 0 if it is to none; nothing if it is no Unix socket, or
// in another network namespace than ours.
std::optional<std::uint64_t> UnixPeer(int pid, std::uint64_t inode);

}  // namespace ncclwatch::stacks
