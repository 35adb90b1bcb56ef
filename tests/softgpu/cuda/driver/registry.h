// The live objects behind handles of one kind: a handle is the object's address, and a stale one is found out.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace softgpu {

template <typename T>
class Registry {
 public:
  T* Add(std::shared_ptr<T> object) {
    T* key = object.get();
    std::unique_lock lock(mutex_);
    live_.emplace(key, std::move(object));
    return key;
  }

  std::shared_ptr<T> Find(const void* handle) const {
    std::shared_lock lock(mutex_);
    auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
  }

  std::shared_ptr<T> Remove(const void* handle) {
    std::unique_lock lock(mutex_);
    auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    live_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<T>> All() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [key, object] : live_) all.push_back(object);
    return all;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> live_;
};

}  // namespace softgpu
