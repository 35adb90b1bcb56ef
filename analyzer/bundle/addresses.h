// Addresses of machines and people in texts.
#pragma once

#include <cstddef>
#include <string_view>

namespace ncclwatch::analyzer {

bool IsIpv4(std::string_view word);

// Where the address ends that begins at `at`: IPv6 (not "::1"), a MAC or an InfiniBand hardware address. `at`: none
// does. No namespaces ("c10::Error"), times ("12:34:56") or PCI addresses ("0000:9b:00.0").
std::size_t EndOfColonAddress(std::string_view text, std::size_t at);

// "aa-bb-cc-dd-ee-ff"; not "24-01-02-03-04-05", which is a time.
bool IsMacWithDashes(std::string_view word);

// "ip-10-0-1-23" of a cloud.
bool IsNamedByAddress(std::string_view word);

// "==12.1.3.1", "CUDA version: 12.1.3.1", "cudnn": "9.4.0.58": what begins at `at` is no address.
bool FollowsVersion(std::string_view text, std::size_t at);

}  // namespace ncclwatch::analyzer
