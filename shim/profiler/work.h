// What NCCL's events say of a collective or a message, in the terms of all versions of the interface.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "ncclwatch/functions/types.h"
#include "shim/profiler/events.h"
#include "shim/profiler/interface.h"

namespace ncclwatch::shim::profiler {

using format::Algorithm;
using format::Protocol;

template <std::size_t kCount>
std::uint8_t IndexOf(const std::string_view (&names)[kCount], const char* name) {
  const auto found = name ? std::find(std::begin(names) + 1, std::end(names), name) : std::end(names);
  return found == std::end(names) ? 0 : static_cast<std::uint8_t>(found - std::begin(names));
}
inline Algorithm AlgorithmOf(const char* name) { return Algorithm(IndexOf(format::kAlgorithms, name)); }
inline Protocol ProtocolOf(const char* name) { return Protocol(IndexOf(format::kProtocols, name)); }
// Version 1 counts from 0.
inline Algorithm AlgorithmOf(std::uint8_t number) { return Algorithm(number < 7 ? number + 1 : 0); }
inline Protocol ProtocolOf(std::uint8_t number) { return Protocol(number < 3 ? number + 1 : 0); }

// "ncclBfloat16", "ncclFloat8e4m3": the first number in it is of bits.
inline std::size_t BytesOf(const char* datatype) {
  if (!datatype) return 0;
  while (*datatype && (*datatype < '0' || *datatype > '9')) ++datatype;
  return std::strtoul(datatype, nullptr, 10) / 8;
}
inline std::size_t BytesOf(std::uint8_t datatype) { return functions::DatatypeBytes(datatype); }

inline std::string_view FunctionOf(const char* name) { return name ? name : ""; }
inline std::string_view FunctionOf(std::uint8_t number) {
  constexpr std::string_view kNames[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                         "AllReduce", "SendRecv", "Send",      "Recv"};
  return number < std::size(kNames) ? kNames[number] : "";
}

// What events of all versions say, as far as it is used.
struct Work {
  std::string_view function;  // without "nccl"
  std::size_t bytes = 0;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
};

template <class T>
const auto& Plain(const T& described) {
  if constexpr (requires { described.as4; })
    return described.as4;
  else
    return described;
}

template <class E>
Work WorkOf(const E& event) {
  if (event.type == kPointToPoint) {
    const auto& it = Plain(event.point_to_point);
    return {FunctionOf(it.function), it.count * BytesOf(it.datatype)};
  }
  const auto& it = Plain(event.collective);
  return {FunctionOf(it.function), it.count * BytesOf(it.datatype), AlgorithmOf(it.algorithm), ProtocolOf(it.protocol)};
}

}  // namespace ncclwatch::shim::profiler
