// Ways up a stack, over stacks that are arrays here.
#include "shim/base/unwind_path.h"

#include <gtest/gtest.h>

#include <array>

namespace ncclwatch::shim {
namespace {

constexpr std::uint64_t kInner = 0x1111, kTool = 0x2222, kWrapper = 0x3333, kApplication = 0x4444;
constexpr std::size_t kFrom = 2, kToolAt = 9, kWrapperAt = 15, kTo = 20;

// The inner wrapper's frame and return address, those of the tool's two functions, the outer wrapper's.
class Stack {
 public:
  Stack() {
    words_[kFrom] = Address(kToolAt - 1);  // a frame pointer
    words_[kFrom + 1] = kInner;
    words_[kToolAt - 1] = 7;  // no frame pointer: used for something else
    words_[kToolAt] = kTool;
    words_[kWrapperAt] = kWrapper;
    words_[kTo + 1] = kApplication;
  }
  std::uint64_t& operator[](std::size_t at) { return words_[at]; }
  std::uintptr_t Address(std::size_t at) const { return reinterpret_cast<std::uintptr_t>(&words_[at]); }
  Entrance from(std::uint64_t site = kInner) const { return {Address(kFrom), site}; }
  Entrance to(std::uint64_t site = kApplication) const { return {Address(kTo), site}; }

  // As the unwinder does.
  void Walk(UnwindPath* path) const {
    for (const std::size_t place : {kFrom + 1, kToolAt, kWrapperAt, kTo + 1})
      path->Pass(Address(place + 1), words_[place]);
  }
  void Learn() const {
    UnwindPath path(from(), Address(kTo));
    Walk(&path);
    path.Keep();
  }

 private:
  std::array<std::uint64_t, 24> words_{};
};

TEST(ShimWays, AWayThatWasGoneIsKnownAgainOnAnyStackAndFromAnyCaller) {
  const Stack stack;
  stack.Learn();
  EXPECT_TRUE(IsKnownUnwindPath(stack.from(), stack.to()));
  Stack other;
  other[kTo + 1] = 0x5555;
  EXPECT_TRUE(IsKnownUnwindPath(other.from(), other.to(0x5555)));
}

TEST(ShimWays, AWayIsNotGoneWhereAWordOfItIsMissing) {
  Stack().Learn();
  for (const std::size_t place : {kFrom, kToolAt, kWrapperAt, kTo + 1}) {
    Stack stack;
    stack[place] += 8;
    EXPECT_FALSE(IsKnownUnwindPath(stack.from(), stack.to())) << place;
  }
  const Stack stack;
  EXPECT_FALSE(IsKnownUnwindPath(stack.from(), stack.to(kTool)));
}

TEST(ShimWays, AnotherSiteOrDistanceIsAnotherWay) {
  Stack stack;
  stack.Learn();
  EXPECT_FALSE(IsKnownUnwindPath(stack.from(kTool), stack.to()));
  EXPECT_FALSE(IsKnownUnwindPath(stack.from(), {stack.Address(kTo + 1), kApplication}));
}

TEST(ShimWays, WhatCannotBeSeenOnTheStackIsNotKept) {
  constexpr std::uint64_t kOwn = 0x6666;  // of a way that no other test keeps
  Stack stack;
  stack[kFrom + 1] = kOwn;
  UnwindPath interrupted(stack.from(kOwn), stack.Address(kTo));
  interrupted.Pass(stack.Address(kFrom + 2), kOwn);
  interrupted.Pass(stack.Address(kToolAt + 1), 0x7777);  // where a signal came in
  interrupted.Pass(stack.Address(kTo + 2), kApplication);
  interrupted.Keep();
  EXPECT_FALSE(IsKnownUnwindPath(stack.from(kOwn), stack.to()));
  UnwindPath past(stack.from(kOwn), stack.Address(kTo - 1));  // ends where no return address lies
  stack.Walk(&past);
  past.Keep();
  EXPECT_FALSE(IsKnownUnwindPath(stack.from(kOwn), {stack.Address(kTo - 1), kApplication}));
  UnwindPath whole(stack.from(kOwn), stack.Address(kTo));
  stack.Walk(&whole);
  whole.Keep();
  EXPECT_TRUE(IsKnownUnwindPath(stack.from(kOwn), stack.to()));
}

}  // namespace
}  // namespace ncclwatch::shim
