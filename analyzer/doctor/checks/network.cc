#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/checks/words.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::doctor {

std::vector<Interface> Interfaces() {
  std::vector<Interface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET)
      inet_ntop(family, &reinterpret_cast<sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size());
    if (family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr))
      inet_ntop(family, &reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr, text.data(), text.size());
    if (text.front() != '\0') found.push_back({one->ifa_name, text.data()});
  }
  freeifaddrs(all);
  return found;
}

std::vector<std::string> AddressesOf(const std::string& name, std::string* why_not) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int status = getaddrinfo(name.c_str(), nullptr, &hints, &all);
  if (status != 0) {
    *why_not = gai_strerror(status);
    return {};
  }
  std::vector<std::string> found;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      found.emplace_back(text.data());
  }
  freeaddrinfo(all);
  return found;
}

// The kernel is asked where that is possible: /sys may be that of another network namespace.
std::map<std::string, std::string> PacketSizes(const Machine& machine) {
  std::map<std::string, std::string> sizes;
  if (machine.is_this_one()) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (const Interface& one : Interfaces()) {
      ifreq request{};
      one.name.copy(request.ifr_name, IFNAMSIZ - 1);
      if (ioctl(fd, SIOCGIFMTU, &request) == 0) sizes[one.name] = std::to_string(request.ifr_mtu);
    }
    if (fd >= 0) close(fd);
    return sizes;
  }
  for (const std::string& name : machine.List("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name;
    if (name != "lo" && machine.Read(folder + "/operstate") == "up")
      sizes[name] = machine.Read(folder + "/mtu").value_or("");
  }
  return sizes;
}

namespace {

bool IsLoopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Result InterfacesUp(const Machine& machine) {
  const std::vector<Interface> found = Interfaces();
  std::vector<std::string> texts;
  for (const Interface& one : found) texts.push_back(one.name + " " + one.address);
  if (!found.empty()) return Pass(Joined(texts));
  if (machine.on_several_hosts())
    return Fail("none but the loopback", "the ranks are on several hosts",
                "bring an interface up, or start the container with the host's network");
  return machine.is_alone() ? Skip("no interface but the loopback, and no other rank")
                            : Pass("no interface but the loopback: enough on one host");
}

Result NameResolution(const Machine& machine) {
  std::vector<std::string> names;
  const auto master = machine.Variable("MASTER_ADDR");
  if (master) names.push_back(*master);
  names.push_back(rundir::HostName());
  std::vector<std::string> seen;
  for (const std::string& name : names) {
    std::string why;
    const std::vector<std::string> addresses = AddressesOf(name, &why);
    if (addresses.empty()) {
      const bool is_master = master && name == *master;
      const std::string reason = fmt::format("{} cannot be resolved: {}", name, why);
      if (is_master)
        return Fail(name, reason, "put the name into DNS or /etc/hosts of every host, or set MASTER_ADDR to a number");
      return Warn(name, reason, "put the host's own name into /etc/hosts: Gloo, MPI and torch look it up");
    }
    if (IsLoopback(addresses.front()) && machine.on_several_hosts())
      return Warn(
          name + " is " + addresses.front(), "other hosts cannot reach that address",
          "let the name mean the host's address on the network, or set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME");
    seen.push_back(name + " is " + addresses.front());
  }
  return Pass(Joined(seen));
}

Result MtuOfInterfaces(const Machine& machine) {
  std::vector<std::string> texts;
  for (const auto& [name, mtu] : PacketSizes(machine)) texts.push_back(name + " " + mtu);
  return texts.empty() ? Skip("no interface is up") : Pass(Joined(texts));
}

Result NicErrors(const Machine& machine) {
  constexpr double kShare = 1e-4;  // of packets: more is no chance
  std::vector<std::string> bad;
  std::size_t looked_at = 0;
  for (const std::string& name : machine.List("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name + "/statistics/";
    const auto packets = machine.Number(folder + "rx_packets"), errors = machine.Number(folder + "rx_errors"),
               sent = machine.Number(folder + "tx_errors");
    if (name == "lo" || !packets || !errors || !sent) continue;
    ++looked_at;
    if (*errors + *sent > kShare * *packets && *errors + *sent > 10)
      bad.push_back(fmt::format("{}: {:.0f} errors in {:.0f} packets", name, *errors + *sent, *packets));
  }
  if (looked_at == 0) return Skip("no interface counts packets here");
  if (bad.empty()) return Pass(fmt::format("{} interfaces without errors", looked_at));
  return Warn(Joined(bad), "a bad cable, port or transceiver", "`ethtool -S`, then change the cable");
}

Result LinkSpeed(const Machine& machine) {
  std::vector<std::string> half;
  for (const std::string& name : machine.List("/sys/class/net"))
    if (machine.Read("/sys/class/net/" + name + "/duplex") == "half") half.push_back(name);
  if (half.empty()) return Pass("no interface runs at half duplex");
  return Warn(Joined(half), "half duplex: the link has negotiated badly",
              "`ethtool`, then look at cable and switch port");
}

Result TimeIsKept(const Machine& machine) {
  if (!machine.is_this_one()) return Skip("another root folder than this machine's");
  timex state{};
  if (adjtimex(&state) < 0) return Skip("the kernel does not tell");
  if (state.status & STA_UNSYNC)
    return Warn("the clock is not synchronised", "times in logs of several hosts do not match",
                "start chrony or systemd-timesyncd");
  return Pass(fmt::format("synchronised, estimated error {} us", state.esterror));
}

Result Ports(const Machine& machine) {
  const auto range = machine.Read("/proc/sys/net/ipv4/ip_local_port_range");
  if (!range) return Skip("the kernel does not tell the range of ports");
  const std::vector<std::string> ends = Split(*range, "\t ");
  if (ends.size() != 2) return Skip("the kernel tells no range of ports");
  const long count = std::stol(ends[1]) - std::stol(ends[0]) + 1;
  constexpr long kFew = 4096;  // NCCL opens a connection for each channel and peer
  if (count < kFew)
    return Warn(Joined(ends, " to "), fmt::format("{} ports for all connections of this host", count),
                "sysctl net.ipv4.ip_local_port_range='32768 60999'");
  return Pass(Joined(ends, " to "));
}

Result IbLinks(const Machine& machine) {
  std::vector<std::string> good, bad;
  for (const std::string& device : machine.List("/sys/class/infiniband"))
    for (const std::string& port : machine.List("/sys/class/infiniband/" + device + "/ports")) {
      const std::string folder = "/sys/class/infiniband/" + device + "/ports/" + port + "/";
      const std::string state = machine.Read(folder + "state").value_or("?"),
                        rate = machine.Read(folder + "rate").value_or("?");
      const std::string text = fmt::format("{}:{} {} {}", device, port, state, rate);
      const double down = machine.Number(folder + "counters/link_downed").value_or(0);
      const double errors = machine.Number(folder + "counters/symbol_error").value_or(0);
      if (state.find("ACTIVE") == std::string::npos)
        bad.push_back(text);
      else if (down > 0 || errors > 0)
        bad.push_back(fmt::format("{}, down {:.0f} times, {:.0f} symbol errors", text, down, errors));
      else
        good.push_back(text);
    }
  if (good.empty() && bad.empty()) {
    if (machine.Variable("NCCL_IB_HCA") && !SaysYes(machine.Variable("NCCL_IB_DISABLE").value_or("")))
      return Fail("no device in /sys/class/infiniband", "NCCL_IB_HCA asks for one",
                  "load the driver, or give the container /dev/infiniband");
    return Skip("there is no InfiniBand or RoCE device");
  }
  if (bad.empty()) return Pass(Joined(good));
  return Warn(Joined(bad), "a port that is not active, or has had errors",
              "`ibstat`, `perfquery`; change the cable or have the port drained");
}

constexpr Check kNetworkChecks[] = {
    {"interfaces", "interfaces with an address", kAnyPhase, InterfacesUp},
    {"name-resolution", "names of this host and of MASTER_ADDR", kAnyPhase, NameResolution},
    {"mtu", "size of packets; alike on all hosts", kScaleUp | kLongRun, MtuOfInterfaces},
    {"nic-errors", "errors of network cards", kScaleUp | kLongRun, NicErrors},
    {"duplex", "half duplex", kScaleUp | kLongRun, LinkSpeed},
    {"time-sync", "whether the clock is kept", kAnyPhase, TimeIsKept},
    {"ports", "ports for connections", kScaleUp, Ports},
    {"ib-links", "InfiniBand and RoCE ports", kAnyPhase, IbLinks},
};

}  // namespace

std::span<const Check> NetworkChecks() { return kNetworkChecks; }

}  // namespace ncclwatch::doctor
