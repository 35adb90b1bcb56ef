// Entries of the section of last words, written by whoever has something to say. Lock-free; async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shim/base/clock.h"
#include "shim/base/put.h"
#include "shim/black_box/box.h"
#include "watchdog/settings/redact.h"

namespace ncclwatch::shim {

// The box, if this is the process that it is about (not a vfork child) and its file is whole; else null.
Box* BoxToSpeakIn();

// Fills in one entry between taking its commit word away and giving it back. A later one of the same slot may come
// meanwhile, from another thread: then neither may be whole, which readers see.
template <class Entry, class Fill>
void WriteEntry(Entry& entry, std::uint64_t number, Fill fill) {
  entry.commit.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  Put(entry.at_ns, clock::Nanoseconds(CLOCK_MONOTONIC));
  fill(entry);
  entry.commit.store(number + 1, std::memory_order_release);
}

// Zero-terminated, cut where there is no more room, not within a character of UTF-8.
template <std::size_t size>
void PutText(char (&field)[size], const char* text) {
  std::size_t bytes = strnlen(text, size);
  if (bytes == size) {
    --bytes;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  }
  for (std::size_t i = 0; i < bytes; ++i) Put(field[i], text[i]);
  for (std::size_t i = bytes; i < size; ++i) Put(field[i], '\0');
}

// The same of a text that is not ours: without the secrets in it. More of it is looked at than the field takes, since a
// secret that is cut is not known as one. In any context, signal handlers too.
template <std::size_t size>
void PutRedacted(char (&field)[size], const char* text, const char* secret_names) {
  constexpr std::size_t kMore = 1024;
  char whole[size + kMore];
  const std::size_t bytes = strnlen(text, sizeof whole - 1);
  std::memcpy(whole, text, bytes);
  whole[bytes] = 0;
  settings::HideSecrets(whole, bytes, secret_names);
  PutText(field, whole);
}

}  // namespace ncclwatch::shim
