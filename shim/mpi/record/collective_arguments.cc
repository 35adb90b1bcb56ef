#include "shim/mpi/record/collective_arguments.h"

namespace ncclwatch::shim::mpi {

void CollectiveArguments::Tell(const format::Part& part) {
  if (size_ < kMost) parts_[size_++] = part;
}

void CollectiveArguments::Mix(Argument which, std::uint64_t value) {
  hash_ = format::Mix(format::Mix(hash_, static_cast<std::uint64_t>(which)), value);
}

void CollectiveArguments::Add(Argument which, std::int64_t value) {
  Mix(which, static_cast<std::uint64_t>(value));
  Tell({.what = 0,
        .dtype = static_cast<std::uint16_t>(which),
        .element = 0,
        .bytes = static_cast<std::uint64_t>(value)});
}

void CollectiveArguments::AddAll(Argument which, const int* values, std::int64_t count, bool truths) {
  if (!values || count <= 0) return;
  const auto value = [&](std::int64_t i) {
    return static_cast<std::uint64_t>(std::int64_t{truths ? values[i] != 0 : values[i]});
  };
  std::uint64_t hash = static_cast<std::uint64_t>(count);
  for (std::int64_t i = 0; i < count; ++i) hash = format::Mix(hash, value(i));
  Mix(which, hash);
  const auto number = static_cast<std::uint16_t>(which);
  if (count > format::kMostOfArray) return Tell({0, number, format::kWholeArray, hash});
  for (std::int64_t i = 0; i < count; ++i) Tell({0, number, static_cast<std::uint16_t>(i), value(i)});
}

void CollectiveArguments::WriteHash(Call& call) const { call.signature = static_cast<std::uint32_t>(hash_ >> 16) | 1; }

void CollectiveArguments::AddTo(Parts& parts) const {
  for (std::uint32_t i = 0; i < size_; ++i) parts.Add(parts_[i]);
}

void CollectiveArguments::Write(Call& call) const {
  WriteHash(call);
  Parts parts(call, size_, 0);
  AddTo(parts);
  parts.Done();
}

}  // namespace ncclwatch::shim::mpi
