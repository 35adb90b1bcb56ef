// protozero writes into a ByteBuffer.
#pragma once

#include <protozero/basic_pbf_writer.hpp>

#include <cstddef>
#include <cstdint>

#include "analyzer/files/byte_buffer.h"

template <>
struct protozero::buffer_customization<ncclwatch::analyzer::ByteBuffer> {
  using Bytes = ncclwatch::analyzer::ByteBuffer;
  static std::size_t size(const Bytes* bytes) { return bytes->size(); }
  static void append(Bytes* bytes, const char* data, std::size_t count) { bytes->Put({data, count}); }
  static void append_zeros(Bytes* bytes, std::size_t count) { bytes->Resize(bytes->size() + count); }
  static void resize(Bytes* bytes, std::size_t size) { bytes->Resize(size); }
  static void reserve_additional(Bytes*, std::size_t) {}
  static void erase_range(Bytes* bytes, std::size_t from, std::size_t to) { bytes->Erase(from, to); }
  static char* at_pos(Bytes* bytes, std::size_t at) { return bytes->At(at); }
  static void push_back(Bytes* bytes, char byte) { bytes->Put(byte); }
};

namespace ncclwatch::analyzer {

// protozero prefers it to its own, which puts byte after byte: nearly all that is written are such numbers.
inline void add_varint_to_buffer(ByteBuffer* bytes, std::uint64_t value) {
  char* const to = bytes->Room(protozero::max_varint_length);
  bytes->EndAt(to + protozero::add_varint_to_buffer(to, value));
}

}  // namespace ncclwatch::analyzer

namespace ncclwatch::analyzer::exporting::perfetto {

using Writer = protozero::basic_pbf_writer<ByteBuffer>;

}  // namespace ncclwatch::analyzer::exporting::perfetto
