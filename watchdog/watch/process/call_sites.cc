#include "watchdog/watch/process/call_sites.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "ncclwatch/format/python_site.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::size_t kMostMaps = 16 << 20;
constexpr std::uint64_t kLowestPie = 0x10000000;  // a program below it was linked to its addresses

// "/path/of/module+0x1234" for the instruction before `address`, empty if it lies in no file.
std::string ModuleText(std::uint64_t address) {
  // No stream: the host's fflush(nullptr) would wait for its lock, and this may wait for the kernel's of the memory
  // map.
  const std::string maps = rundir::ReadSmall("/proc/self/maps", kMostMaps).value_or("");
  std::map<std::string, std::uint64_t> lowest;
  for (std::size_t at = 0, next; at < maps.size(); at = next) {
    next = std::min(maps.find('\n', at), maps.size() - 1) + 1;
    const std::string line = maps.substr(at, next - 1 - at);
    unsigned long long begin = 0, end = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %*s %*s %*s %*s %n", &begin, &end, &path_at) < 2 || line[path_at] != '/')
      continue;
    const std::string path = line.substr(path_at);
    const std::uint64_t base = lowest.try_emplace(path, begin).first->second;
    if (address <= begin || address > end) continue;
    char offset[24];
    std::snprintf(offset, sizeof offset, "+0x%llx",
                  static_cast<unsigned long long>(address - 1 - (base < kLowestPie ? 0 : base)));
    return path + offset;
  }
  return {};
}

}  // namespace

bool CallSites::Known(std::uint64_t address) const {
  for (std::uint32_t i = 0; i < used_; ++i)
    if (own_->call_sites[i].address.load(std::memory_order_relaxed) == address) return true;
  return false;
}

std::uint64_t CallSites::NativeOf(std::uint64_t site) const {
  const format::PythonSites* const lines = format::OwnPythonSites(own_);
  return lines && site >= 1 && site <= format::kPythonSites ? lines->entries[site - 1].native : site;
}

void CallSites::Name(std::uint64_t address) {
  const std::string text = ModuleText(address);
  format::CallSite& site = own_->call_sites[used_++];
  const auto bytes = static_cast<std::uint32_t>(text.size() + 1);
  const std::uint32_t at = text.empty() ? 0 : own_->strings_used.fetch_add(bytes, std::memory_order_relaxed);
  if (at != 0 && at <= own_->strings.count && bytes <= own_->strings.count - at) {
    std::memcpy(reinterpret_cast<char*>(own_) + own_->strings.offset + at, text.c_str(), bytes);
    site.name = at;
  } else if (at != 0) {
    own_->strings_used.fetch_sub(bytes, std::memory_order_relaxed);
  }
  site.named_ns = Monotonic();
  // Pairs with the reader's acquire: who sees the address sees the name.
  site.address.store(address, std::memory_order_release);
}

void CallSites::ReportTrouble() {
  const format::PythonSites* const lines = format::OwnPythonSites(own_);
  if (reported_ || !lines || lines->given_up.load(std::memory_order_relaxed) == 0) return;
  reported_ = true;
  log::Warn("Python's frames cannot be read: calls keep their native call sites");
}

void CallSites::Update(std::uint64_t most) {
  ReportTrouble();
  const std::uint64_t head = own_->head.load(std::memory_order_acquire);
  if (most == kAtTheEnd) looked_at_ = 0;  // what a busy loop has hidden
  if (head == looked_at_ || used_ == format::kCallSites || own_->ring.count == 0) return;
  const auto* ring = reinterpret_cast<const format::Record*>(reinterpret_cast<const char*>(own_) + own_->ring.offset);
  std::uint64_t slot = head - std::min({head - looked_at_, most, std::uint64_t{own_->ring.count}});
  for (; slot < head && used_ < format::kCallSites; ++slot) {
    const format::Record& record = ring[slot % own_->ring.count];
    if (record.commit.load(std::memory_order_acquire) != slot + 1) continue;
    const std::uint64_t site = __atomic_load_n(&record.site, __ATOMIC_RELAXED);
    if (record.commit.load(std::memory_order_acquire) != slot + 1) continue;
    const std::uint64_t native = NativeOf(site);
    if (native != 0 && !Known(native)) Name(native);
  }
  looked_at_ = head;
}

}  // namespace ncclwatch::watch
