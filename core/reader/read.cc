// Boxes copied out of their files.
#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include "core/reader/box.h"
#include "core/reader/file.h"
#include "core/reader/scratch.h"

namespace ncclwatch::reader {
namespace {

// The largest ring, the most communicators, and as much again.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

std::variant<BoxImage, Failure> Read(const std::string& path, std::uint64_t newest, Scratch* scratch) {
  File file(path);
  if (!file.reason().empty()) return Failure{path, file.reason()};
  alignas(format::Header) char head[sizeof(format::Header)];
  const std::size_t got = file.ReadAt(0, head, sizeof(head));
  std::string reason = CheckHeader(head, got, file.bytes());
  if (!reason.empty()) return Failure{path, std::move(reason)};
  const std::uint64_t bytes = reinterpret_cast<const format::Header*>(head)->file_bytes;
  // A file with holes costs its owner nothing; its copy would cost us all of it.
  if (bytes > kMostBytes) return Failure{path, "too large to be read: " + std::to_string(bytes) + " bytes"};
  void* const memory = scratch->Of(bytes);
  if (memory == nullptr) return Failure{path, "too large to be read: " + std::to_string(bytes) + " bytes"};
  const std::size_t read = file.ReadAt(0, memory, bytes);
  reason = CheckHeader(memory, read, read);  // again: the file may have changed since
  Layout layout;
  if (reason.empty()) reason = CheckSections(memory, read, &layout);
  if (!reason.empty()) return Failure{path, std::move(reason)};
  const std::unique_ptr<MappedBox> box = MappedBox::Borrow(static_cast<const format::Header*>(memory), path);
  return newest == UINT64_MAX ? box->Image() : box->Sifted(newest);
}

// The calls of one image are 112 bytes each, and a verdict takes another 20 for each.
constexpr std::uint64_t kCallsInAll = 500'000;
constexpr std::uint64_t kCallsEach = 32;

}  // namespace

std::variant<BoxImage, Failure> ReadBox(const std::string& path, std::uint64_t newest) {
  Scratch scratch;
  return Read(path, newest, &scratch);
}

void ReadBoxes(const std::vector<std::string>& files, Calls calls, const std::function<void(std::size_t)>& done,
               std::vector<BoxImage>* boxes, std::vector<Failure>* failures) {
  if (files.empty()) return;
  const std::uint64_t newest = calls == Calls::kAll ? UINT64_MAX : std::max(kCallsEach, kCallsInAll / files.size());
  std::vector<std::variant<BoxImage, Failure>> read(files.size());
  std::atomic<std::size_t> next{0}, ready{0};
  const auto work = [&](bool tells) {
    Scratch scratch;
    for (std::size_t i = next++; i < files.size(); i = next++) {
      try {
        read[i] = Read(files[i], newest, &scratch);
      } catch (const std::bad_alloc&) {
        read[i] = Failure{files[i], "there is not enough memory to read it"};
      }
      const std::size_t count = ++ready;
      if (tells) done(count);
    }
  };
  constexpr std::size_t kMostThreads = 8;
  const std::size_t threads = std::min({files.size(), kMostThreads, std::size_t{std::thread::hardware_concurrency()}});
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work, false);
  work(true);
  for (std::thread& other : others) other.join();
  done(files.size());
  for (std::variant<BoxImage, Failure>& one : read) {
    if (auto* box = std::get_if<BoxImage>(&one))
      boxes->push_back(std::move(*box));
    else
      failures->push_back(std::move(std::get<Failure>(one)));
  }
}

}  // namespace ncclwatch::reader
