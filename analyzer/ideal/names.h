// Texts and keys as small numbers.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <utility>

namespace ncclwatch::analyzer::ideal {

template <typename Key>
class Numbers {
 public:
  std::uint32_t Of(const Key& key) {
    return number_of_.try_emplace(key, static_cast<std::uint32_t>(number_of_.size())).first->second;
  }
  std::size_t size() const { return number_of_.size(); }

 private:
  absl::flat_hash_map<Key, std::uint32_t> number_of_;
};

}  // namespace ncclwatch::analyzer::ideal
