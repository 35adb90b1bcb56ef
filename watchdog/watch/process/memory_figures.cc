#include "watchdog/watch/process/memory_figures.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "watchdog/rundir/process.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kHostEvery_ns = 1'000'000'000;  // the host's figures cost more, and move more slowly

void Put(std::uint64_t& field, std::uint64_t value) { std::atomic_ref(field).store(value, std::memory_order_relaxed); }

}  // namespace

MemoryFigures::MemoryFigures(format::Header* own)
    : words_(own->words.count == 0
                 ? nullptr
                 : reinterpret_cast<format::Words*>(reinterpret_cast<char*>(own) + own->words.offset)),
      page_bytes_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) {}

void MemoryFigures::Update(std::int64_t now_ns) {
  const std::string pages = rundir::ReadSmall("/proc/self/statm", 256).value_or("");  // "TOTAL RESIDENT ..."
  const std::size_t resident = pages.find(' ');
  if (words_ == nullptr || resident == std::string::npos) return;
  Put(words_->resident_bytes, std::strtoull(pages.c_str() + resident, nullptr, 10) * page_bytes_);
  if (host_at_ns_ == 0 || now_ns - host_at_ns_ >= kHostEvery_ns) {
    host_at_ns_ = now_ns;
    const std::string host = rundir::ReadSmall("/proc/meminfo", 4096).value_or("");
    constexpr const char* kAvailable = "MemAvailable:";
    const std::size_t at = host.find(kAvailable);
    if (at != std::string::npos)
      Put(words_->available_bytes, std::strtoull(host.c_str() + at + std::string(kAvailable).size(), nullptr, 10)
                                       << 10);
  }
  words_->memory_at_ns.store(now_ns, std::memory_order_release);
}

}  // namespace ncclwatch::watch
