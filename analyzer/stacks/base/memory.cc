#include "analyzer/stacks/base/memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostPages = 256;  // of one Prefetch call: below the kernel's limit of 1,024 stretches

std::uint64_t PageOf(std::uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

Memory::Memory(int pid) : pid_(pid) {}

Memory::~Memory() {
  if (file_ >= 0) close(file_);
}

std::size_t Memory::ReadNow(std::uint64_t address, void* to, std::size_t bytes) const {
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  ssize_t got = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  if (got < 0 && (errno == EPERM || errno == ENOSYS)) got = ReadFile(address, to, bytes);
  if (got < 0) {
    error_ = errno;
    return 0;
  }
  return static_cast<std::size_t>(got);
}

// Containers forbid process_vm_readv (seccomp) more often than they forbid what it does.
ssize_t Memory::ReadFile(std::uint64_t address, void* to, std::size_t bytes) const {
  if (file_ == kNotOpened) file_ = open(("/proc/" + std::to_string(pid_) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  return file_ < 0 ? -1 : pread(file_, to, bytes, static_cast<off_t>(address));
}

const Memory::Page* Memory::PageAt(std::uint64_t address) {
  if (address == last_address_) return last_;
  auto [entry, fresh] = pages_.try_emplace(address);
  if (fresh) {
    auto page = std::make_unique<Page>();
    if (ReadNow(address, page->data(), kPageBytes) == kPageBytes) entry->second = std::move(page);
  }
  last_address_ = address;
  last_ = entry->second.get();
  return last_;
}

bool Memory::Read(std::uint64_t address, void* to, std::size_t bytes) {
  if (address + bytes < address) return false;
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const Page* const page = PageAt(PageOf(address));
    if (!page) return false;
    const std::size_t at = address % kPageBytes;
    const std::size_t part = std::min<std::size_t>(bytes, kPageBytes - at);
    std::memcpy(out, page->data() + at, part);
    address += part;
    out += part;
    bytes -= part;
  }
  return true;
}

void Memory::Prefetch(std::uint64_t address, std::size_t bytes) {
  const std::uint64_t end = address + bytes;
  std::uint64_t at = PageOf(address);
  while (at < end) {
    std::vector<std::unique_ptr<Page>> pages;
    std::vector<iovec> local;
    for (std::uint64_t page = at; page < end && pages.size() < kMostPages; page += kPageBytes) {
      pages.push_back(std::make_unique<Page>());
      local.push_back({pages.back()->data(), kPageBytes});
    }
    const iovec remote{reinterpret_cast<void*>(at), pages.size() * kPageBytes};
    const ssize_t got = process_vm_readv(pid_, local.data(), local.size(), &remote, 1, 0);
    const std::size_t whole = got > 0 ? static_cast<std::size_t>(got) / kPageBytes : 0;
    for (std::size_t i = 0; i < whole; ++i) pages_.try_emplace(at + i * kPageBytes, std::move(pages[i]));
    if (whole < pages.size()) return;
    at += whole * kPageBytes;
  }
}

void Memory::Forget() {
  pages_.clear();
  last_address_ = UINT64_MAX;
  last_ = nullptr;
}

bool CopiedStretch::Read(std::uint64_t address, void* to, std::size_t bytes) {
  const std::uint64_t at = address - begin_;
  if (address >= begin_ && at < bytes_.size() && bytes <= bytes_.size() - at) {
    std::memcpy(to, bytes_.data() + at, bytes);
    return true;
  }
  return behind_->Read(address, to, bytes);
}

}  // namespace ncclwatch::stacks
