// Black boxes as a rank would have written them, from the format's headers alone: what the tests' writers share. They
// know nothing of the recorder, so that a fault of the recorder cannot hide itself in them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::testing {

// Entries of each section; strings in bytes.
struct BoxSize {
  std::uint32_t communicators = 4, records = 256, peers = 16, observations = 16, parts = 256, strings = 4096;
};

// Where the sections lie, each on pages of its own, behind the page of the header.
struct BoxLayout {
  format::Section communicators, records, peers, observations, words, parts, strings;
  std::uint64_t bytes;  // of the file
};
BoxLayout LayOut(const BoxSize& size);

// Says so in a header of zeroes. Without the magic: a reader refuses the box until Publish.
void PutLayout(const BoxLayout& layout, format::Header* header);
void Publish(format::Header* header);

template <typename T>
T* At(format::Header* header, const format::Section& section) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(header) + section.offset);
}

template <std::size_t kBytes>
void Put(const std::string& text, char (&to)[kBytes]) {
  std::snprintf(to, kBytes, "%s", text.c_str());
}

// A new file, laid out, mapped for writing, and locked for as long as this process lives and closes no descriptor of
// that file. Null if it cannot be made.
format::Header* MakeLockedBox(const std::string& path, const BoxSize& size);

// "<host>.<pid>.<start time>.box" of this process.
std::string OwnBoxName(const std::string& host);

// This process as one rank of `world` on one machine, running, its heart beating now, its clock the system's own.
void DescribeThisProcess(int rank, int world, format::Header* header);

// A collective of one communicator as its rank sees it.
struct CollectiveCall {
  functions::Function function = functions::Function::ncclAllReduce;
  std::uint64_t count = 1024;
  std::uint8_t dtype = 7;  // float32
  std::uint64_t stream = 0;
  std::uint64_t site = 0;
  std::uint32_t thread = 0;
  std::uint32_t flags = 0;  // format::RecordFlags
};
void EnterCollective(const CollectiveCall& call, std::uint32_t communicator, format::Header* header);
void ReturnNewest(format::Header* header);  // the newest record's call

}  // namespace ncclwatch::testing
